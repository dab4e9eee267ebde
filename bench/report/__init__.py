"""What saved results show: tables and plots, as one HTML page, as PNG files, and on a terminal."""
