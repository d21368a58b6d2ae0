package control

import (
	"net"
	"net/http"
	"syscall"
	"testing"
)

// tired is a listener that cannot accept at first.
type tired struct {
	net.Listener

	failures int
}

func (l *tired) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestALackOfDescriptorsDoesNotEndTheControlSocket(t *testing.T) {
	dir := t.TempDir()
	s, err := Listen(dir, Options{Wake: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	s.listener = &tired{Listener: s.listener, failures: 3}
	served := make(chan error, 1)
	go func() { served <- s.Serve(func(string) http.Handler { return http.NotFoundHandler() }) }()
	if _, err := Ping(t.Context(), dir); err != nil {
		t.Errorf("ping: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("serve ended with %v", err)
	}
}
