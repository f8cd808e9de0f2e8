# Receives mail with aiosmtpd on a free port, which it prints, and then what Python's email package reads in each mail, one JSON
# object a line. Recipients that begin with "later" or "gone" are refused. It ends when its standard input does.
import asyncio
import email
import email.policy
import json
import sys

from aiosmtpd.smtp import SMTP


class Reader:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("later"):
            return "451 4.3.0 try again"
        if address.startswith("gone"):
            return "550 5.1.1 unknown"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        raw = envelope.original_content
        m = email.message_from_bytes(raw, policy=email.policy.default)
        print(json.dumps({
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "headers": [[k, str(v)] for k, v in m.items()],
            "toAddresses": [a.addr_spec for a in m["To"].addresses],
            "replyTo": [a.addr_spec for a in m["Reply-To"].addresses] if m["Reply-To"] else [],
            "parts": [part(p) for p in m.walk() if not p.is_multipart()],
            "defects": [type(d).__name__ for d in m.defects]
            + [k + " " + type(d).__name__ for k, v in m.items() for d in getattr(v, "defects", [])],
            "longest": max(len(line) for line in raw.split(b"\r\n")),
            "ascii": raw.isascii(),
            "bare": any(c in raw.replace(b"\r\n", b"") for c in b"\r\n"),
        }), flush=True)
        return "250 OK"


def part(p):
    content = p.get_content()
    return {
        "type": p.get_content_type(),
        "file": p.get_filename() or "",
        "text": content.decode() if isinstance(content, bytes) else content,
        "defects": [type(d).__name__ for d in p.defects],
    }


async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Reader(), hostname="mail.agency.example"), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main())
