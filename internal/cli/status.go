package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

// status is one line on the terminal that shows the running session.
type status struct {
	app   *app
	shown bool
	lines map[int64]progress
}

// progress is read from the transcript of a running session.
type progress struct {
	after int64
	tool  string // called last
}

// newStatus returns nil where stderr is not a terminal: the log then shows one line per step.
func (a *app) newStatus() *status {
	if a.quiet || a.output != asTable || !terminal(a.Stderr) {
		return nil
	}
	return &status{app: a, lines: map[int64]progress{}}
}

// show rewrites the line from the rows of the cycle.
func (s *status) show(ctx context.Context, st *client, id ops.CycleID) {
	if s == nil {
		return
	}
	cycle, err := st.Cycle(ctx, id)
	if err != nil {
		return // the next change reads again
	}
	last := lastWorking(cycle.Sessions)
	if last == nil || last.Status != ops.SessionRunning || last.StartedAt == nil {
		s.clear()
		return
	}
	p := s.follow(ctx, st, last.ID)
	text := fmt.Sprintf("#%d %s · %s", last.ID, last.Tier, time.Since(*last.StartedAt).Round(time.Second))
	if spent := cycle.TotalCostUSD; spent != nil {
		text += " · est. " + ops.Dollars(spent) + " so far"
	}
	if p.tool != "" {
		text += " · " + p.tool
	}
	s.write(text)
}

// lastWorking is the newest session that did the work of a tier itself, or nil.
func lastWorking(sessions []api.Session) *api.Session {
	for i := range slices.Backward(sessions) {
		if works(sessions[i]) {
			return &sessions[i]
		}
	}
	return nil
}

// follow reads the lines that were added to a transcript.
func (s *status) follow(ctx context.Context, st *client, id int64) progress {
	p := s.lines[id]
	lines, err := st.Transcript(ctx, ops.SessionID(id), p.after, 500)
	if err != nil {
		return p
	}
	for _, l := range lines {
		p.after = l.Seq
		for _, part := range l.Parts() {
			if part.Kind == transcript.Call {
				p.tool = part.Tool + " " + part.Text
			}
		}
	}
	s.lines[id] = p
	return p
}

func (s *status) write(text string) {
	width := 100
	if f, ok := s.app.Stderr.(interface{ Fd() uintptr }); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			width = w
		}
	}
	fmt.Fprintf(s.app.Stderr, "\r\x1b[K%s", shorten(text, width-1))
	s.shown = true
}

// clear removes the line.
func (s *status) clear() {
	if s != nil && s.shown {
		fmt.Fprint(s.app.Stderr, "\r\x1b[K")
		s.shown = false
	}
}

func (a *app) healthcheckCommand() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use: "healthcheck", Short: "Check whether the daemon is ready; exit 0 or 1",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			host, port, err := net.SplitHostPort(cfg.Listen)
			if err != nil {
				return fmt.Errorf("read listen address: %w", err)
			}
			if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
				host = "127.0.0.1"
			}
			ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
			if err != nil {
				return fmt.Errorf("ask daemon: %w", err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return fmt.Errorf("ask daemon: %w", err)
			}
			defer func() { _ = answer.Body.Close() }()
			body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
			if err != nil {
				return fmt.Errorf("read answer: %w", err)
			}
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("the daemon is not ready: %s %s", answer.Status, strings.TrimSpace(string(body)))
			}
			var said struct {
				Status string `json:"status"`
			}
			_ = json.Unmarshal(body, &said) // another program's answer is ready, too
			fmt.Fprintln(a.Stdout, or(said.Status, "ready"))
			return nil
		}),
	}, "listen")
}
