package daemon

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestNoSessionStartsWithTheLastDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, failure := 100, error(nil)
		d := &descriptors{limit: 256, count: func() (int, error) { return open, failure }}
		if err := d.trouble(); err != nil {
			t.Error(err)
		}
		open = 225
		<-time.After(2 * time.Second)
		if err := d.trouble(); err == nil || !strings.Contains(err.Error(), "225 of 256 file descriptors") {
			t.Errorf("with 31 left: %v", err)
		}
		open = 30
		<-time.After(2 * time.Second)
		if err := d.trouble(); err != nil {
			t.Error(err)
		}
		failure = syscall.EMFILE
		<-time.After(2 * time.Second)
		if err := d.trouble(); err == nil {
			t.Error("without any left a session may start")
		}
		failure = errors.New("no /proc")
		<-time.After(2 * time.Second)
		if err := d.trouble(); err != nil {
			t.Errorf("what cannot be counted counts as none: %v", err)
		}
	})
	if d := newDescriptors(); d.used() < 3 || d.limit < d.used() || d.connections() > d.limit/2 {
		t.Errorf("%d of %d", d.used(), d.limit)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := newConnections(ln, 3)
	server := &http.Server{
		ConnState: c.note, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "well")
		}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(c) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	dial := func(text string) net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			_, err = io.WriteString(conn, text)
		}
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	until := func(cond func() bool) {
		for !cond() {
			<-time.After(time.Millisecond)
		}
	}
	active := func(n int) func() bool {
		return func() bool {
			n := n
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, since := range c.open {
				if since.IsZero() {
					n--
				}
			}
			return n <= 0
		}
	}
	// Idle ones make room for others.
	first := dial("")
	for range 10 {
		dial("")
	}
	if n, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || n != 0 {
		t.Errorf("the oldest idle connection stays: %d, %v", n, err)
	}
	if open, _, refused := c.counts(); open > 3 || refused > 0 {
		t.Errorf("%d open, %d refused", open, refused)
	}
	// Busy ones do not.
	var busy []net.Conn
	for i := range 3 {
		busy = append(busy, dial("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n"))
		until(active(i + 1))
	}
	answer, err := bufio.NewReader(dial("")).ReadString('\n')
	if err != nil || !strings.Contains(answer, "503") {
		t.Errorf("one too many is answered %q, %v", answer, err)
	}
	if _, _, refused := c.counts(); refused != 1 {
		t.Errorf("%d refused", refused)
	}
	_ = busy[0].Close()
	until(func() bool { open, _, _ := c.counts(); return open < 3 })
	answer, err = bufio.NewReader(dial("GET / HTTP/1.1\r\nHost: here\r\n\r\n")).ReadString('\n')
	if err != nil || !strings.Contains(answer, "200") {
		t.Errorf("with room again: %q, %v", answer, err)
	}
}
