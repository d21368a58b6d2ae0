package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/network"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
)

const (
	netStarts   = 30
	netRequests = 300
)

// network measures what a network of its own adds to the start of a session, its proof included, and to a request.
func (b *bench) network() ([]figure, error) {
	state := filepath.Join(b.dir, "network")
	if err := os.MkdirAll(filepath.Join(state, "work"), 0o700); err != nil {
		return nil, err
	}
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer service.Close()
	at, ok := service.Listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.New("the service has no address")
	}
	dir := filepath.Join(state, "gates", "n")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	g, err := network.Open(context.Background(), network.Options{
		Dir: dir, Permits: []network.Permit{{Name: "service", Host: "127.0.0.1", Port: at.Port}},
	})
	if err != nil {
		return nil, err
	}
	defer g.Close()
	s := wall.New(wall.Config{
		Confine: true, Auto: true, Network: true, Relay: []string{b.binary, relay.Word}, StateDir: state, WorkDir: filepath.Join(state, "work"),
		Gates: filepath.Dir(dir), ExtraReadOnly: []string{b.binary},
	})
	if !s.Namespaced(ops.Tier1) {
		return []figure{{"network of a session", "no namespaces here", ""}}, nil
	}
	own := &wall.Net{Dir: dir, Relay: g.Network(), Ports: g.Ports(), Trial: g.Trial()}
	took := func(n *wall.Net, script string) (float64, error) {
		session := wall.Session{ID: "1", Ungated: true, Net: n}
		if err := errors.Join(s.Prepare(ops.Tier1), s.PrepareSession(ops.Tier1, session)); err != nil {
			return 0, err
		}
		c, err := s.WrapSession(ops.Tier1, session, wall.Command{
			Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
		})
		if err != nil {
			return 0, err
		}
		cmd := exec.Command(c.Path, c.Argv[1:]...) //nolint:gosec,noctx // it ends by itself
		cmd.Env, cmd.Dir = c.Env, c.Dir
		begun := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "hold") {
			return 0, fmt.Errorf("run in the walls: %w: %s", err, out)
		}
		return float64(time.Since(begun).Microseconds()) / 1000, nil
	}
	ask := fmt.Sprintf("curl -s -o /dev/null '%s/[1-%d]'", service.URL, netRequests)
	var p50 [4]float64
	for i, m := range []struct {
		net    *wall.Net
		script string
	}{{nil, ":"}, {own, ":"}, {nil, ask}, {own, ask}} {
		var all []float64
		for range netStarts {
			ms, err := took(m.net, m.script)
			if err != nil {
				return nil, err
			}
			all = append(all, ms)
		}
		slices.Sort(all)
		p50[i] = all[len(all)/2]
	}
	each := ((p50[3] - p50[1]) - (p50[2] - p50[0])) / netRequests
	return []figure{
		{
			"start of a session in a network of its own, its proof included",
			fmt.Sprintf("p50 +%.1f ms (%.1f times)", p50[1]-p50[0], p50[1]/p50[0]), "+ ≤ 15 ms",
		},
		{"a request through relay and filter", fmt.Sprintf("p50 +%.2f ms", each), "+ ≤ 1 ms"},
	}, nil
}
