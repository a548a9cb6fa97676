//go:build !linux

package control

import "net"

// peerOf does not know: the modes of the socket and its directory decide.
func peerOf(*net.UnixConn) Peer { return Peer{} }
