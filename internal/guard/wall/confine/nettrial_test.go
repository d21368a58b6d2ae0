//go:build linux

package confine

import (
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Go's runtime interrupts threads by signals. A trial that takes this for an answer would stop a session whose walls hold.
func TestASignalIsNoAnswerToATrial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := syscall.Gettid()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 200))
			for range 200 {
				_ = syscall.Tgkill(os.Getpid(), thread, syscall.SIGURG)
				runtime.Gosched()
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\n\r\n")
			_ = conn.Close()
		}
	}()
	trial := &NetworkTrial{Host: [4]byte{127, 0, 0, 1}, Proxy: l.Addr().(*net.TCPAddr).Port} //nolint:forcetypeassert // it is one
	for range 5 {
		if got := trial.exchange("GET / HTTP/1.1"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
			t.Errorf("the answer is %q", got)
		}
	}
	_ = l.Close()
	<-done
}
