package demo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheServiceAnswersAsItsUpstreamDoes(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		want   int
	}{"library is fine": {200, 200}, "library fails": {500, 502}, "library is missing": {404, 502}} {
		t.Run(name, func(t *testing.T) {
			library := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tc.status) }))
			defer library.Close()
			dir := t.TempDir()
			text := confText("for a test", strings.TrimPrefix(library.URL, "http://"))
			must(t, os.WriteFile(filepath.Join(dir, confFile), []byte(text), 0o600))
			ln, err := Listen(t.Context(), "127.0.0.1:0")
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- Service(ctx, dir, ln) }()
			if got := health(t, "http://"+ln.Addr().String()); got != tc.want {
				t.Errorf("answers %d, want %d", got, tc.want)
			}
			if pid := readPID(t, dir); pid != os.Getpid() {
				t.Errorf("pid file names %d", pid)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, pidFile)); err == nil {
				t.Error("the pid file is still there")
			}
		})
	}
}

func TestListenRefusesAWrongDescriptor(t *testing.T) {
	for _, where := range []string{"fd:x", "fd:1", "fd:", "nonsense"} {
		if ln, err := Listen(t.Context(), where); err == nil {
			_ = ln.Close()
			t.Errorf("%q was accepted", where)
		}
	}
}
