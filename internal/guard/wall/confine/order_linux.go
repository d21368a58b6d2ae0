package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// maxOrder bounds an order: the kernel takes no longer list of arguments.
const maxOrder = 8 << 20

// Send names the program to a process that waits behind its walls. Conn is the other end of its standard input; stdin becomes the
// standard input of the program.
func Send(conn, stdin *os.File, o Order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("describe program: %w", err)
	}
	if len(text) > maxOrder {
		return errors.New("describe program: its arguments are too long")
	}
	var sent int
	var failed error
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("name program: %w", err)
	}
	err = raw.Write(func(fd uintptr) bool {
		sent, failed = syscall.SendmsgN(int(fd), text, syscall.UnixRights(int(stdin.Fd())), nil, syscall.MSG_NOSIGNAL)
		return !errors.Is(failed, syscall.EAGAIN)
	})
	if err = errors.Join(err, failed); err == nil && sent < len(text) {
		_, err = conn.Write(text[sent:])
	}
	if err == nil {
		err = conn.Close() // the end of the order
	}
	if err != nil {
		return fmt.Errorf("name program: %w", err)
	}
	return nil
}

// await reads the order and becomes the program. A supervisor that is gone, or does not need this process, closes the socket.
func await(stderr io.Writer) int {
	text, stdin, err := receive()
	if err != nil {
		fmt.Fprintln(stderr, "confine: read the program:", err)
		return exitNotConfined
	}
	if len(text) == 0 {
		return 0 // it is not needed
	}
	var o Order
	if err := json.Unmarshal(text, &o); err != nil {
		fmt.Fprintln(stderr, "confine: read the program:", err)
		return exitNotConfined
	}
	if err := syscall.Dup3(stdin, 0, 0); err != nil {
		fmt.Fprintln(stderr, "confine: set the standard input:", err)
		return exitNotConfined
	}
	return become(o, stderr)
}

// receive reads to the end, with the one descriptor that came along.
func receive() (text []byte, stdin int, err error) {
	stdin = -1
	part, rights := make([]byte, 64<<10), make([]byte, syscall.CmsgSpace(4))
	for {
		n, oob, _, _, err := syscall.Recvmsg(0, part, rights, syscall.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return nil, -1, err
		case n == 0 && oob == 0:
			if len(text) > 0 && stdin < 0 {
				return nil, -1, errors.New("it has no standard input")
			}
			return text, stdin, nil
		}
		if text = append(text, part[:n]...); len(text) > maxOrder {
			return nil, -1, errors.New("it is too long")
		}
		if oob > 0 && stdin < 0 {
			if stdin, err = descriptor(rights[:oob]); err != nil {
				return nil, -1, err
			}
		}
	}
}

func descriptor(raw []byte) (int, error) {
	messages, err := syscall.ParseSocketControlMessage(raw)
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(errors.New("it came without a descriptor"), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("it came without a descriptor"), err)
	}
	return fds[0], nil
}
