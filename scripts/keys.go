package scripts

import (
	"context"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// keys reads single keys from a terminal that somebody watches: no line is waited
// for and nothing is echoed, while Ctrl-C and Ctrl-Z stay signals. close puts the
// terminal back and waits for its goroutine.
type keys struct {
	f       *os.File
	was     *unix.Termios
	pressed chan byte // what was pressed; the newest is dropped when nobody takes it
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// openKeys returns nil where there is no terminal to read from, or when this
// process is in its background.
func openKeys(ctx context.Context, in any) *keys {
	f, ok := in.(*os.File)
	if !ok || !isTerminal(f) || !foreground(f) {
		return nil
	}
	was, err := unix.IoctlGetTermios(int(f.Fd()), getModes)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r, err := newPatientReader(ctx, f)
	if err != nil {
		cancel()
		return nil
	}
	k := &keys{f: f, was: was, pressed: make(chan byte, 1), cancel: cancel}
	k.again()
	k.wg.Go(func() {
		defer r.close()
		var b [1]byte
		for {
			if n, err := r.Read(b[:]); err != nil || n == 0 {
				return
			}
			select {
			case k.pressed <- b[0]:
			default:
			}
		}
	})
	return k
}

// foreground says whether this process may change the modes of its terminal.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// again sets the modes, also after a rest in the background.
func (k *keys) again() {
	if k == nil || !foreground(k.f) {
		return
	}
	modes := *k.was
	modes.Lflag &^= unix.ICANON | unix.ECHO
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 1, 0
	_ = unix.IoctlSetTermios(int(k.f.Fd()), setModes, &modes) // then a key comes with its line
}

// channel is where the keys come; nil, which never gives one, without keys.
func (k *keys) channel() <-chan byte {
	if k == nil {
		return nil
	}
	return k.pressed
}

func (k *keys) close() {
	if k == nil {
		return
	}
	k.cancel()
	k.wg.Wait()
	if foreground(k.f) {
		_ = unix.IoctlSetTermios(int(k.f.Fd()), setModes, k.was) // a terminal that is gone has none
	}
}
