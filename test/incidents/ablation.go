package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// patch is a change of one file of the product's source. The product has no switch for what a contender leaves out, and must not have one:
// such a contender is built from a changed source.
type patch struct {
	file    string
	changes []string // old and new, in turns
}

// ablations are the contenders that no configuration makes.
func ablations() map[string]patch {
	return map[string]patch{
		"judge-allows": {"internal/guard/gate/judge.go", []string{ // the broker, the actions and the walls stay
			"\"encoding/hex\"\n", "\"encoding/hex\"\n\"encoding/json\"\n", "q.input, facts)\n",
			"q.input, facts)\n var c struct{ Command string }\n _ = json.Unmarshal(q.input, &c)\n d.Verdict, d.Script = guard.Allow, c.Command\n",
		}},
		"no-verification": {"internal/cycle/probe.go", []string{ // every repair counts as verified
			"	good := a.Clock()\n	for {\n", "	good := a.Clock()\n	for {\n		for i := range all {\n			all[i].Status = ops.Healthy\n		}\n",
		}},
		"no-tiers": {"internal/ops/session.go", []string{ // every session may what the highest tier may, also the first one, which should only look
			"func (s Session) May() Tier {\n", "func (s Session) May() Tier {\n	if s.Tier != 0 {\n		return LastTier\n	}\n",
		}},
		"no-actions": {"internal/api/mcpserver/tools_agent.go", []string{ // agents are not offered them
			"Name: \"action_run\",", "Name: \"action_none\",",
		}},
	}
}

// givenBinary ends the name of a program that the caller gave.
const givenBinary = "-given"

// build compiles the programs that pairs need.
func (b *bench) build(ctx context.Context, jobs []Job) error {
	programs := map[string]string{}
	for _, j := range jobs {
		programs[j.Binary] = j.Contender
	}
	for _, path := range slices.Sorted(maps.Keys(programs)) {
		if strings.HasSuffix(path, givenBinary) {
			continue
		}
		contender := programs[path]
		tags := ""
		if contender == againName {
			tags = "failpoint" // its clock can be set: a repair is on probation for ten minutes
		}
		if err := compile(ctx, b.root, path, tags, ablations()[contender]); err != nil {
			return err
		}
	}
	return nil
}

// compile builds the product, with a change of its source if there is one.
func compile(ctx context.Context, root, target, tags string, p patch) error {
	dir, err := os.MkdirTemp("", "claudeops-build-")
	if err != nil {
		return fmt.Errorf("build claudeops: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args := []string{"build", "-trimpath", "-tags", tags, "-o", target}
	if p.file != "" {
		overlay, err := p.overlay(root, dir)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, "./cmd/claudeops")...)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build claudeops: %w: %s", err, out)
	}
	return nil
}

// overlay writes the changed file and what tells the compiler to take it.
func (p patch) overlay(root, dir string) (string, error) {
	path := filepath.Join(root, p.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("change the source: %w", err)
	}
	for i := 0; i < len(p.changes); i += 2 {
		if n := strings.Count(string(source), p.changes[i]); n != 1 {
			return "", fmt.Errorf("%s has %q %d times: follow the source", p.file, p.changes[i], n)
		}
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	plan, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", fmt.Errorf("change the source: %w", err)
	}
	for name, text := range map[string]string{changed: strings.NewReplacer(p.changes...).Replace(string(source)), overlay: string(plan)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("change the source: %w", err)
		}
	}
	return overlay, nil
}
