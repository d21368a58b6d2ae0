package river

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestQueueNames(t *testing.T) {
	long := strings.Repeat("x", 61)
	for environment, want := range map[string]string{
		"default":    "env-default",
		"home-lab_2": "env-home-lab_2",
		"a--b":       "hash-", "Prod": "hash-", "": "hash-", "a b": "hash-", "größe": "hash-", "-a": "hash-", long: "hash-", long[1:]: "env-" + long[1:],
	} {
		got := queue(environment)
		if !strings.HasPrefix(got, want) || len(got) > 64 {
			t.Errorf("the queue of %q is %q", environment, got)
		}
	}
	if queue("Prod") == queue("prod") || queue("a b") == queue("a  b") {
		t.Error("two environments share a queue")
	}
}

func TestTheLogIsThinned(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newThin(slog.NewTextHandler(&out, nil)))
	log.Info("started")
	for range 3 {
		log.With("queue", "a").Error("fetching failed", "err", "connection refused")
	}
	log.WithGroup("g").Warn("another", "err", errors.New("reset"))
	log.Error("stopping", "err", errors.New("begin: context canceled"))
	got := out.String()
	if strings.Count(got, "\n") != 2 || strings.Contains(got, "ERROR") || !strings.Contains(got, `level=WARN msg="queue: fetching failed"`) ||
		!strings.Contains(got, "another") {
		t.Errorf("it says\n%s", got)
	}
}
