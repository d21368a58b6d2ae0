package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

const (
	dnsPort     = 53
	firstFile   = 3    // of those that the relay inherits
	maxQuestion = 4096 // bytes of a name question
	mostAtOnce  = 64   // questions
)

// serve is the whole life of the relay: it passes connections and questions for names to the supervisor, which decides about each. The
// relay itself decides nothing, so a session that speaks to the supervisor's socket directly gains nothing. It ends with its pid namespace.
func (n *Network) serve() int {
	for i := range n.Ports {
		go n.acceptAll(os.NewFile(uintptr(firstFile+i), "listener"))
	}
	n.answerAll(os.NewFile(uintptr(firstFile+len(n.Ports)), "names"))
	return exitNotConfined
}

// wait calls f until it no longer has to wait, and returns its error.
func wait(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		failed = f(int(fd))
		return !errors.Is(failed, syscall.EAGAIN)
	})
	if err != nil {
		return err
	}
	return failed
}

func (n *Network) acceptAll(listener *os.File) {
	for {
		conn := -1
		err := wait(listener, func(fd int) (err error) {
			conn, _, err = syscall.Accept4(fd, socketFlags)
			return err
		})
		if err == nil {
			go n.pass(conn)
		} else if errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EINVAL) || errors.Is(err, os.ErrClosed) {
			return
		}
	}
}

// dial connects to the supervisor and says what comes.
func (n *Network) dial(what string) (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: n.Socket}); err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "supervisor")
	if _, err := file.WriteString(what + "\n"); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// pass copies one connection both ways. A connection that the supervisor ends without a byte is reset, as a refused one is.
func (n *Network) pass(fd int) {
	client := os.NewFile(uintptr(fd), "client")
	defer func() { _ = client.Close() }()
	var at [16]byte
	port := 0
	switch local, _ := syscall.Getsockname(fd); local := local.(type) {
	case *syscall.SockaddrInet6:
		at, port = local.Addr, local.Port
	case *syscall.SockaddrInet4:
		at[10], at[11], port = 0xff, 0xff, local.Port
		copy(at[12:], local.Addr[:])
	}
	server, err := n.dial(fmt.Sprintf("tcp %x %d", at, port))
	if err != nil {
		reset(client)
		return
	}
	defer func() { _ = server.Close() }()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(server, client)
		shut(server)
	}()
	if got, _ := io.Copy(client, server); got == 0 {
		reset(client)
		_ = client.Close()
		return
	}
	shut(client)
	<-sent
}

// control calls f with the descriptor of a file.
func control(file *os.File, f func(fd int)) {
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

func shut(file *os.File) {
	control(file, func(fd int) { _ = syscall.Shutdown(fd, syscall.SHUT_WR) })
}

func reset(file *os.File) {
	control(file, func(fd int) {
		_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	})
}

// answerAll passes questions for names to the supervisor, and answers from the address that was asked.
func (n *Network) answerAll(names *os.File) {
	free := make(chan struct{}, mostAtOnce)
	for {
		question, info := make([]byte, maxQuestion), make([]byte, 64)
		var from syscall.Sockaddr
		err := wait(names, func(fd int) error {
			got, extra, _, sender, err := syscall.Recvmsg(fd, question[:maxQuestion], info[:64], 0)
			if err == nil {
				question, info, from = question[:got], info[:extra], sender
			}
			return err
		})
		if err != nil && !errors.Is(err, syscall.EINTR) && !errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err != nil || from == nil {
			continue
		}
		free <- struct{}{}
		go func() {
			defer func() { <-free }()
			if answer, err := n.ask(question); err == nil {
				control(names, func(fd int) { _ = syscall.Sendmsg(fd, answer, info, from, 0) })
			}
		}()
	}
}

// ask sends one question and reads its answer; both have their length in front, as DNS over TCP has it.
func (n *Network) ask(question []byte) ([]byte, error) {
	server, err := n.dial("dns")
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }()
	length := uint16(len(question)) //nolint:gosec // at most maxQuestion
	if _, err := server.Write(append(binary.BigEndian.AppendUint16(nil, length), question...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(server, size[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err = io.ReadFull(server, answer)
	return answer, err
}

// run tries the network from inside and returns what is broken. It stays on the calling thread, which is the one behind the wall, and
// sends nothing but requests that the supervisor refuses.
func (t *NetworkTrial) run() []string {
	var broken []string
	for _, request := range t.Requests {
		if answer := t.exchange(request); !strings.HasPrefix(answer, "HTTP/1.1 403 ") {
			broken = append(broken, fmt.Sprintf("the network did not refuse %q: %.60q", request, answer))
		}
	}
	if t.Name != "" && !t.unknown() {
		broken = append(broken, "the network knows the name "+t.Name)
	}
	fd, err := connect(t.Address, 9)
	_ = syscall.Close(fd)
	if err == nil || errors.Is(err, syscall.EINPROGRESS) || errors.Is(err, syscall.ETIMEDOUT) {
		broken = append(broken, fmt.Sprintf("the address %v is not out of reach", t.Address))
	}
	if keepsCapability() { // a low port would tell nothing: in containers anybody may listen on it
		broken = append(broken, "the session kept a capability")
	}
	if fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.IPPROTO_ICMP); err == nil {
		_ = syscall.Close(fd)
		broken = append(broken, "the session can open raw sockets")
	}
	return broken
}

// connect opens a connection whose steps take at most some seconds.
func connect(host [4]byte, port int) (fd int, err error) {
	_, err = again(func() (int, error) {
		fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		limit(fd, 2)
		if err = syscall.Connect(fd, &syscall.SockaddrInet4{Addr: host, Port: port}); errors.Is(err, syscall.EINTR) {
			_ = syscall.Close(fd)
		}
		return 0, err
	})
	return fd, err
}

// again repeats a call that a signal interrupted: Go's runtime sends some, and the kernel does not resume calls that have a time limit.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

func limit(fd int, seconds int64) {
	for _, what := range []int{syscall.SO_SNDTIMEO, syscall.SO_RCVTIMEO} {
		_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, what, &syscall.Timeval{Sec: seconds})
	}
}

// exchange sends a request to the supervisor's proxy and returns the beginning of the answer.
func (t *NetworkTrial) exchange(request string) string {
	fd, err := connect(t.Host, t.Proxy)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = syscall.Close(fd) }()
	limit(fd, 10) // the relay may just be starting
	text := []byte(request + "\r\nHost: trial\r\nConnection: close\r\n\r\n")
	if _, err := again(func() (int, error) { return syscall.Write(fd, text) }); err != nil {
		return err.Error()
	}
	answer := make([]byte, 64)
	n, err := again(func() (int, error) { return syscall.Read(fd, answer) })
	if err != nil {
		return err.Error()
	}
	return string(answer[:n])
}

// unknown reports whether the resolver says that the name does not exist.
func (t *NetworkTrial) unknown() bool {
	question := []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0} // one question
	for part := range strings.SplitSeq(t.Name, ".") {
		question = append(append(question, byte(len(part))), part...) //nolint:gosec // a short name
	}
	question = append(question, 0, 0, 1, 0, 1)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	limit(fd, 10)
	if syscall.Connect(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: dnsPort}) != nil {
		return false
	}
	if _, err := again(func() (int, error) { return syscall.Write(fd, question) }); err != nil {
		return false
	}
	answer := make([]byte, 512)
	n, err := again(func() (int, error) { return syscall.Read(fd, answer) })
	const notFound = 3
	return err == nil && n > 3 && answer[3]&0xf == notFound
}
