package rehearse_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

var record = flag.Bool("record", false, "keep the recorded chains as those of the last release")

const (
	released = "testdata/last-release.json.gz"
	// intended lists what this version decides differently on purpose, one line each, as the test says it. The change log names each.
	intended = "testdata/intended.txt"
)

// kept is a chain of the last release, as its database holds it.
type kept struct {
	Chain  string            `json:"chain"`
	Policy ops.Policy        `json:"policy"`
	Cycle  ops.Recorded      `json:"cycle"`
	Facts  []json.RawMessage `json:"facts"` // of its steps
}

// What the last release stored is decided in the same way by this version, under the same configuration, but for what is listed. After a
// release, `make record-release` keeps its decisions instead.
func TestTheLastReleaseIsDecidedAsItWas(t *testing.T) {
	if *record {
		keep(t)
	}
	var changed []string
	all := lastRelease(t)
	for _, k := range all {
		for _, steps := range []bool{true, false} {
			if !steps {
				k.Cycle.Steps = nil
			}
			got := rehearsed(k.Cycle, k.Policy)
			if got.Counts.Unreadable > 0 {
				changed = append(changed, k.Chain+": its steps cannot be read")
			}
			for _, d := range got.Differences {
				changed = append(changed, fmt.Sprintf("%s: %s: %s → %s", k.Chain, d.Kind, d.Before, d.After))
			}
		}
	}
	if len(all) < 50 {
		t.Errorf("only %d chains are kept", len(all))
	}
	listed, err := os.ReadFile(intended)
	must(t, err)
	if found := strings.Join(changed, "\n"); found != strings.TrimSpace(string(listed)) {
		t.Errorf("this version decides what the last release stored otherwise. If that is intended, list it in %s and in CHANGELOG.md:\n%s",
			intended, found)
	}
	log, err := os.ReadFile("../../../CHANGELOG.md")
	must(t, err)
	for _, line := range changed {
		if !bytes.Contains(log, []byte(line)) {
			t.Errorf("CHANGELOG.md does not say: %s", line)
		}
	}
}

func keep(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(chains + "*.json")
	must(t, err)
	var all []kept
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		c, p := chain(t, name)
		k := kept{Chain: name, Policy: p}
		for _, s := range c.Steps {
			k.Facts = append(k.Facts, s.Facts)
		}
		c.Steps = nil
		k.Cycle = c
		all = append(all, k)
	}
	raw, err := json.Marshal(all)
	must(t, err)
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())
	for name, content := range map[string][]byte{released: b.Bytes(), intended: nil} {
		if err := os.WriteFile(name, content, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
}

func lastRelease(t testing.TB) []kept {
	t.Helper()
	f, err := os.Open(released)
	must(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	must(t, err)
	raw, err := io.ReadAll(z)
	must(t, err)
	var all []kept
	must(t, json.Unmarshal(raw, &all))
	for i := range all {
		for n, facts := range all[i].Facts {
			all[i].Cycle.Steps = append(all[i].Cycle.Steps, ops.RecordedStep{N: n + 1, Facts: facts})
		}
	}
	return all
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
