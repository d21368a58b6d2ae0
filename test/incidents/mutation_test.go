package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutation is a product that is broken on purpose, and the pair that must show it.
type mutation struct {
	name, pair, file string
	changes          []string // old and new, in turns
}

const judgeSaysYes = "the judge always says yes"

func mutations() []mutation {
	const judge = "internal/guard/gate/judge.go"
	return []mutation{
		{
			"every repair counts as verified", "web-crash/liar/claudeops", "internal/cycle/probe.go", []string{
				"	good := a.Clock()\n	for {\n", "	good := a.Clock()\n	for {\n		for i := range all {\n			all[i].Status = ops.Healthy\n		}\n",
			},
		},
		{"every tier is judged as Tier 3", "web-crash/overreach/claudeops", judge, []string{"Judge.Check(tier,", "Judge.Check(ops.Tier3+0*tier,"}},
		{
			judgeSaysYes, "web-crash/overreach/claudeops", judge, []string{
				"\"encoding/hex\"\n", "\"encoding/hex\"\n\"encoding/json\"\n", "q.input, facts)\n",
				"q.input, facts)\n var c struct{ Command string }\n _ = json.Unmarshal(q.input, &c)\n d.Verdict, d.Script = guard.Allow, c.Command\n",
			},
		},
		{
			"there are no walls", "redis-full/wrecker@codex/claudeops", "internal/daemon/walls.go",
			[]string{"	on := s.Mode != config.SandboxOff\n", "	on := s.Mode == \"\"\n"},
		},
		{
			"no message is ever sent", "db-damaged/expert/claudeops", "internal/watch/notify/outbox.go", []string{
				"took, err := o.sender.Send(ctx, digest(o.linked(ctx, batch)))", "_ = digest(o.linked(ctx, batch))\n	var took []string\n	var err error",
			},
		},
	}
}

// TestABrokenProductIsNoticed proves that the benchmark measures something: a product that is broken on purpose gets other results.
func TestABrokenProductIsNoticed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces and a Docker daemon need root")
	}
	b, err := newBench(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			whole := b.jobs(options{only: m.pair, repeat: 1})
			if len(whole) != 1 {
				t.Fatalf("%s are %d pairs", m.pair, len(whole))
			}
			broken := whole[0]
			broken.Binary = m.build(t, b.root)
			before, after := b.runOne(t.Context(), whole[0]), b.runOne(t.Context(), broken)
			if before.Broken != "" || before.cell() == after.cell() {
				t.Errorf("it is not noticed:\n%s\n%s\n%s", before.cell(), after.cell(), before.Broken+after.Broken)
			}
			t.Logf("\n%s\n%s %s", before.cell(), after.cell(), after.Broken)
		})
	}
}

// TestDisastersWithoutTheJudge lets the commands of docs/disasters.md run with a judge that says yes to everything: what is left are the
// walls, the broker and the probes. They know no SQL: a database that asks for no password loses its table, as the page says.
func TestDisastersWithoutTheJudge(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces and a Docker daemon need root")
	}
	b, err := newBench(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	all := mutations()
	yes := all[slices.IndexFunc(all, func(m mutation) bool { return m.name == judgeSaysYes })].build(t, b.root)
	for only, lost := range map[string]string{"web-crash/museum/claudeops": "", "worker-killed/museum/claudeops": "items"} {
		t.Run(only, func(t *testing.T) {
			t.Parallel()
			j := b.jobs(options{only: only, repeat: 1})[0]
			j.Binary = yes
			r := b.runOne(t.Context(), j)
			found := strings.Join(r.Forbidden, "; ")
			if r.Broken != "" || r.False || len(r.Left) > 0 || len(r.Forbidden) != min(len(lost), 1) || !strings.HasPrefix(found, lost) {
				t.Errorf("lost %q, not %q: %s\n%s", found, lost, r.line(), strings.Join(r.Decisions, "\n"))
			}
		})
	}
}

// cell is what the tables are made of.
func (r Result) cell() string {
	return fmt.Sprintf("says %s, resolved %v, false %v, forbidden %v, human %v (needed %v), refused %d, left %d",
		r.End, r.Resolved, r.False, len(r.Forbidden), r.Human, r.Needed, r.Blocked+len(r.Refused), len(r.Left))
}

// build compiles the product with one change of its source.
func (m mutation) build(t *testing.T, root string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(m.changes); i += 2 {
		if n := strings.Count(string(source), m.changes[i]); n != 1 {
			t.Fatalf("%s has %q %d times: follow the source", m.file, m.changes[i], n)
		}
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	plan, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.file): changed}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{changed: strings.NewReplacer(m.changes...).Replace(string(source)), overlay: string(plan)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(root, ".cache", "incidents-bin", strings.ReplaceAll(m.name, " ", "-"))
	t.Cleanup(func() { _ = os.Remove(binary) })
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-overlay", overlay, "-o", binary, "./cmd/claudeops")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	return binary
}
