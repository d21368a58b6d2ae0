package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

func TestCtlPrintsAndExitsSoThatAShellCanDecide(t *testing.T) {
	dir := shortDir(t)
	startKeeper(t, dir, "service")
	for _, tc := range []struct {
		line   string
		code   int
		stdout string
		stderr string
	}{
		{"status", 0, "mediabox is running, pid ", ""},
		{"get /health", 0, "HTTP/1.1 200 OK\nok\n", ""},
		{"break", 0, "mediabox restarted", ""},
		{"get /health", 22, "HTTP/1.1 502 Bad Gateway\nbad gateway: the library does not answer\n", ""},
		{"get /nothing", 22, "HTTP/1.1 404 Not Found\n", ""},
		{"log", 0, "connection refused", ""},
		{"config", 0, "upstream = 127.0.0.1:1\n", ""},
		{"restart", 0, "mediabox restarted", ""},
		{"rebuild-cache", 1, "", "fill cache: the library does not answer"},
		{"get /player", 22, "HTTP/1.1 503 Service Unavailable\nthe cache is empty\n", ""},
		{"restore-cache", 0, "the cache is back", ""},
		{"get /player", 0, "HTTP/1.1 200 OK\nplayer: 3 films", ""},
		{"redeploy", 0, "mediabox restarted", ""},
		{"get /health", 0, "HTTP/1.1 200 OK\nok\n", ""},
		{"previous", 0, "mediabox restarted", ""},
		{"get /health", 22, "HTTP/1.1 502 Bad Gateway\n", ""},
		{"redeploy", 0, "mediabox restarted", ""},
		{"rebuild-cache", 0, "the cache is filled from the library", ""},
		{"get /health", 0, "HTTP/1.1 200 OK\nok\n", ""},
		{"explode", 1, "", `unknown verb "explode": want one of status, restart, break, redeploy, previous, rebuild-cache, restore-cache, log, config`},
		{"get", 2, "", "get takes one path"},
		{"get http://example.org/", 2, "", "get takes one path"},
		{"restart now", 2, "", "restart takes no argument"},
	} {
		t.Run(tc.line, func(t *testing.T) {
			words := strings.Fields(tc.line)
			var stdout, stderr bytes.Buffer
			code := Ctl(t.Context(), dir, words[0], words[1:], &stdout, &stderr)
			if code != tc.code || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
			}
		})
	}
}

func TestCtlWithoutADemoSaysSo(t *testing.T) {
	dir := shortDir(t)
	for _, verb := range []string{"status", "get"} {
		var stderr bytes.Buffer
		var args []string
		if verb == "get" {
			args = []string{"/health"}
		}
		if code := Ctl(t.Context(), dir, verb, args, &stderr, &stderr); code != 1 || !strings.Contains(stderr.String(), "is it running?") {
			t.Errorf("%s: code %d, stderr %q", verb, code, stderr.String())
		}
	}
}

func TestGetOfADemoThatHasEndedExitsWithSeven(t *testing.T) {
	dir := shortDir(t)
	must(t, startKeeper(t, dir, "service").Close())
	var out bytes.Buffer
	if code := Ctl(t.Context(), dir, "get", []string{"/health"}, &out, &out); code != 7 {
		t.Errorf("code %d, %q", code, out.String())
	}
}

func TestGarbageOnTheSocketDoesNotEndTheKeeper(t *testing.T) {
	dir := shortDir(t)
	startKeeper(t, dir, "service")
	for _, garbage := range []string{"garbage\n", "{\"verb\":5}\n", strings.Repeat("[", 2*maxRequest)} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", filepath.Join(dir, socketFile))
		must(t, err)
		_, _ = fmt.Fprint(conn, garbage)
		if err := json.NewDecoder(conn).Decode(new(wireReply)); err == nil {
			t.Errorf("%.10q was answered", garbage)
		}
		_ = conn.Close()
	}
	if _, err := Control(t.Context(), dir, Status); err != nil {
		t.Error(err)
	}
}
