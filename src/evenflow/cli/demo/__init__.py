"""`evenflow demo`: what sharing brings, and who gives way in a surge. Two acts, one file each."""
