package river

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestQueueNames(t *testing.T) {
	long := strings.Repeat("x", 59)
	for _, tt := range []struct{ got, want string }{
		{labelQueue(nil), "any"},
		{labelQueue([]string{"lan", "gpu", "lan"}), "label-gpu_lan"},
		{labelQueue([]string{"a--b"}), "labelhash-"},
		{labelQueue([]string{"Prod"}), "labelhash-"},
		{labelQueue([]string{"größe"}), "labelhash-"},
		{labelQueue([]string{long}), "labelhash-"},
		{labelQueue([]string{long[1:]}), "label-" + long[1:]},
		{hostQueue("ops-1"), "host-ops-1"},
		{hostQueue("Ops.example.org"), "hosthash-"},
	} {
		if !strings.HasPrefix(tt.got, tt.want) || len(tt.got) > 64 {
			t.Errorf("a queue is %q, want %q", tt.got, tt.want)
		}
	}
	if labelQueue([]string{"Prod"}) == labelQueue([]string{"prod"}) || labelQueue([]string{"a b"}) == labelQueue([]string{"a  b"}) {
		t.Error("two sets of labels share a queue")
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
