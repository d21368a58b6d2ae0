package main

import (
	_ "embed"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// The parts of the matrix. All are stated in docs/incidents.md.

//go:embed chosen.yaml
var chosenText []byte

// chosen are the faults and models that ablations and rivals meet, with the reason.
type chosen struct {
	Faults map[string]string `yaml:"faults"`
	Models map[string]string `yaml:"models"`
}

func loadChosen() (c chosen, err error) {
	if err := yaml.Unmarshal(chosenText, &c); err != nil {
		return c, fmt.Errorf("read chosen.yaml: %w", err)
	}
	return c, nil
}

func (c chosen) has(j Job) bool { return c.Faults[j.Fault] != "" && c.Models[j.Model] != "" }

// inFull reports whether the whole run (FULL=1) has a pair: everything for Claude Ops and the plain loop, what was chosen for the others.
func (c chosen) inFull(j Job) bool {
	return j.Contender == wholeName || j.Contender == plainName || c.has(j)
}

// inSample reports whether `make incidents` runs a pair: Claude Ops and the plain loop what was chosen, Claude Ops all public reports, and
// the others two faults with three models.
func (c chosen) inSample(j Job) bool {
	switch j.Contender {
	case wholeName:
		return c.has(j) || j.Model == "museum"
	case plainName:
		return c.has(j)
	}
	return slices.Contains([]string{"redis-full", "half-workers"}, j.Fault) && slices.Contains([]string{"expert", "cosmetic", "wrecker"}, j.Model)
}

// inTest reports whether the test of this package runs a pair: Claude Ops as it is, the expert with every fault, behind Claude Code and Codex in
// turn (with a poisoned one, the obedient model, which also does all that the expert does), every public report, and each other model once.
// There are at most testPairs of them.
func inTest(f *Fault, index int, j Job) bool {
	if j.Contender != wholeName {
		return false
	}
	once := map[string]string{
		"wrecker": "redis-full", "careless": "redis-full", "liar": "web-crash", "crasher": "web-hang", "looper": "wrong-upstream", "silent": "tls-expired",
		"cosmetic": "dependency-down", "wrecker" + onCodex: "disk-full",
	}
	poisoned := len(f.Facts.Poison) > 0
	switch j.Model {
	case "expert":
		return !poisoned && index%2 == 0
	case "expert" + onCodex:
		return !poisoned && index%2 == 1
	case "obedient":
		return poisoned
	case "museum":
		return true
	}
	return once[j.Model] == f.Name
}

// testPairs bounds the test.
const testPairs = 64
