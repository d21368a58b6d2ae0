package control_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"claudeops/internal/daemon/control"
)

func TestWake(t *testing.T) {
	// Longer than a socket's path may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Wake(t.Context(), dir); !errors.Is(err, control.ErrNoDaemon) {
		t.Fatalf("without a daemon: %v", err)
	}
	woken := make(chan struct{}, 1)
	s, err := control.Listen(dir, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(); err != nil {
			t.Error(err)
		}
	})
	r, err := control.Wake(t.Context(), dir)
	if err != nil || r.PID != os.Getpid() {
		t.Errorf("got %+v, %v", r, err)
	}
	<-woken
	if info, err := os.Stat(filepath.Join(dir, "control.sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	serving.Wait()
	if _, err := os.Lstat(filepath.Join(dir, "control.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "control.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := control.Listen(dir, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
