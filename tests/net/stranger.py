"""Connects to a host as a stranger in many ways: noise, half-open connections, requests of other protocols,
what a host said before, and records that are too long.

    stranger.py ADDRESS PORT CONNECTIONS [SECONDS]      SECONDS: evenly in that time
"""
import os
import socket
import sys
import time

address, many = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 0
held, connected, begin = [], 0, time.monotonic()
hello = b"SWT1" + bytes([1, 0, 1, 0]) + (2 | 4711 << 16).to_bytes(8, "little")
record = bytes([22, 3, 1])  # of TLS: a handshake
words = [b"", os.urandom(4096), b"GET / HTTP/1.1\r\n\r\n", hello, hello * 3, record + b"\x40\x00" + b"x" * 16384,
         record + b"\xff\xff" + b"x" * 200000, record + b"\x00\x05\x01\x00\x00\x01\x00"]
print("ready", flush=True)
for i in range(many):
    time.sleep(max(0, begin + seconds * i / many - time.monotonic()))
    try:
        s = socket.create_connection(address, 1)
        connected += 1
        s.setblocking(False)
        s.send(words[i % len(words)])
        held.append(s)  # half open
        if len(held) > 200:
            held.pop(0).close()
    except OSError:
        pass
print("connected:", connected, flush=True)
