package loopback

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// ports are handed out in turn.
var ports = sync.OnceValue(func() *atomic.Int32 { return new(atomic.Int32) })

// FreeAddress is an address nobody else takes before a daemon does: its port is not one of those the system gives away.
func FreeAddress(t testing.TB) string {
	t.Helper()
	const first, many = 20_000, 12_000
	for range many {
		port := first + (os.Getpid()*131+int(ports().Add(1)))%many
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

// Output is written by a process and read by a test.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to it.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String is what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Trap is a proxy for all that goes elsewhere, in an environment. Its end says how often it was asked.
func Trap(t testing.TB) (environ []string, end func() int32) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = conn.Close()
		}
	}()
	proxy := "http://" + listener.Addr().String()
	return []string{"HTTPS_PROXY=" + proxy, "HTTP_PROXY=" + proxy, "NO_PROXY=127.0.0.1"}, func() int32 {
		_ = listener.Close()
		<-done
		return asked.Load()
	}
}
