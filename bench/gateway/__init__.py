"""What `parkazoo gateway` costs, beside the same programs at one server."""
