package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	firstRounds = 9
	firstWindow = time.Second // grouping.window, in which other failures may join; it is not counted
)

// firstAnswers are how many milliseconds after the check that decided each thing happened.
type firstAnswers struct{ claimed, acted, spoke []float64 }

// first measures from the failed check that starts a cycle to what is done about it: the cycle is claimed, a reflex runs its action, and,
// without a reflex, Tier 1 says its first word. The same agent started by hand is the measure for the last.
func (b *bench) first() ([]figure, error) {
	spoke := filepath.Join(b.dir, "first-spoke")
	agent := must(b.agent(noteTime(spoke) + "\n" + result + "\n"))
	var alone []float64
	var all firstAnswers
	for i := range firstRounds {
		took, _, err := timed(nil, agent)
		if err != nil {
			return nil, err
		}
		alone = append(alone, took)
		check(b.firstOf(agent, spoke, i, &all))
	}
	return []figure{
		{"last failed check and `grouping.window` to the claimed cycle", spread(all.claimed), "≤ 50 ms"},
		{"… to the start of a reflex's action", spread(all.acted), "≤ 100 ms"},
		{
			"… to the first word of Tier 1, more than its program alone",
			fmt.Sprintf("+%.0f ms (%.0f and %.0f ms, %d rounds)", middle(all.spoke)-middle(alone), middle(all.spoke), middle(alone), firstRounds), "+ ≤ 120 ms",
		},
	}, nil
}

// firstOf breaks a service twice, each time for a daemon of its own: with a reflex and without.
func (b *bench) firstOf(agent, spoke string, round int, all *firstAnswers) error {
	acted := filepath.Join(b.dir, "first-acted")
	for _, reflex := range []bool{true, false} {
		check(errors.Join(os.RemoveAll(spoke), os.RemoveAll(acted)))
		s := newFirstService()
		config := filepath.Join(b.dir, "first.yaml")
		text := "grouping: {window: 1s}\nservices:\n  - name: web\n    trust: full\n    probes: [{type: http, url: '" + s.URL + "', interval: 1s, fail_after: 1}]\n" +
			"    actions: [{name: note, run: [/bin/sh, -c, '" + noteTime(acted) + "']}]\n"
		if reflex {
			text += "    reflexes: [{on: http, do: [note]}]\n"
		}
		check(os.WriteFile(config, []byte(text), 0o600))
		state := filepath.Join(b.dir, fmt.Sprintf("first-%d-%t", round, reflex))
		d := must(b.start(agent, state, "CLAUDEOPS_CONFIG="+config))
		err := s.measure(filepath.Join(state, "claudeops.db"), map[bool]string{true: acted, false: spoke}[reflex], func(claimed, done float64) {
			all.claimed = append(all.claimed, claimed)
			if reflex {
				all.acted = append(all.acted, done)
			} else {
				all.spoke = append(all.spoke, done)
			}
		})
		d.stop()
		s.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// noteTime is a command that writes the time in nanoseconds to a file, which is there when it is complete.
func noteTime(file string) string {
	return "date +%s%N > " + file + ".tmp && mv " + file + ".tmp " + file
}

// firstService is well until it is broken, and notes when it first said so.
type firstService struct {
	*httptest.Server
	asked  atomic.Int64
	broken atomic.Bool
	failed atomic.Int64 // in nanoseconds
}

func newFirstService() *firstService {
	s := &firstService{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		if s.broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			s.failed.CompareAndSwap(0, time.Now().UnixNano())
		}
	}))
	return s
}

// measure breaks the service when nothing else is to be done, and waits for the file that says that something was done.
func (s *firstService) measure(database, file string, note func(claimed, done float64)) error {
	db, err := sql.Open("sqlite", "file:"+database+"?mode=ro")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var before int
	err = until(ctx, func() (bool, error) {
		var open int
		err := db.QueryRowContext(ctx, "SELECT COUNT(*), COUNT(*) FILTER (WHERE ended_at IS NULL) FROM cycles").Scan(&before, &open)
		return s.asked.Load() > 2 && before > 0 && open == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the first cycle: %w", err)
	}
	if err := os.RemoveAll(file); err != nil { // the first cycle may have started the agent
		return err
	}
	s.broken.Store(true)
	raw, err := waitFor(file)
	if err != nil {
		return err
	}
	done, err := strconv.ParseInt(strings.TrimSpace(raw), 10, 64)
	if err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	var started string
	if err := db.QueryRowContext(ctx, "SELECT started_at FROM cycles ORDER BY id DESC LIMIT 1").Scan(&started); err != nil {
		return err
	}
	claimed, err := time.Parse(time.RFC3339Nano, started)
	if err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	failed := s.failed.Load()
	failed += int64(firstWindow)
	note(float64(claimed.UnixNano()-failed)/1e6, float64(done-failed)/1e6)
	return nil
}
