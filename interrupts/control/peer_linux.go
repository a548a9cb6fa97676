package control

import (
	"net"
	"syscall"
)

// peerOf asks the kernel who connected, or who listens.
func peerOf(c *net.UnixConn) Peer {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}
	}
	var cred *syscall.Ucred
	cerr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || cerr != nil {
		return Peer{}
	}
	return Peer{PID: int(cred.Pid), UID: int(cred.Uid), Known: true}
}
