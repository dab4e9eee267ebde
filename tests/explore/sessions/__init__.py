"""Sessions that begin, are lost, expire and begin anew, in every order: production clients without a network.

Here the whole session runs, with its members, handshakes and links. Each file stands on those above it:

- ``bytes``: what a server sends; ``below``: a loop and sockets that a test plays
- ``client``: a production client over them; ``world``: where all is between two moves, and these
- ``scenario``, ``beginning``: what is explored; ``positions``: what clients come to by what they get
- ``ledger``: what is known of a client; ``judge``: what must hold
- ``command``: what moves a directory; ``results``: what a client alone is answered meanwhile
- ``scheduler``: what can happen next, and what comes of it
- ``tell``, ``explorer``: as in the folder above; ``families``, ``mutants``, ``move_mutants``:
  scenarios by name
"""
