package exec

import (
	"errors"

	"golang.org/x/sys/unix"
)

// sendFiles passes descriptors over a socket of sequenced packets.
func sendFiles(socket int, files []int) error {
	return unix.Sendmsg(socket, []byte{0}, unix.UnixRights(files...), nil, unix.MSG_NOSIGNAL)
}

func receiveFiles(socket int) ([]int, error) {
	const most = 3
	var one [1]byte
	space := make([]byte, unix.CmsgSpace(4*most))
	for {
		_, n, _, _, err := unix.Recvmsg(socket, one[:], space, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		msgs, err := unix.ParseSocketControlMessage(space[:n])
		if err != nil || len(msgs) != 1 {
			return nil, errors.Join(err, unix.EPROTO)
		}
		return unix.ParseUnixRights(&msgs[0])
	}
}

func closeFiles(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}
