package scripted

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// DemoScenario is the name of the built-in scenario that is played when none is named.
const DemoScenario = "demo"

// builtinPrefix marks the name of a built-in scenario where a file name is expected.
const builtinPrefix = "builtin:"

// scenarios is read only; the compiler fills it.
//
//go:embed scenarios/*.yaml
var scenarios embed.FS

// Builtin returns the YAML text of a scenario that is part of the program.
func Builtin(name string) ([]byte, error) {
	names := builtinNames()
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("find built-in scenario %q: there is none, only: %s", name, strings.Join(names, ", "))
	}
	return scenarios.ReadFile("scenarios/" + name + ".yaml")
}

func builtinNames() []string {
	files, err := fs.Glob(scenarios, "scenarios/*.yaml")
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(f, "scenarios/"), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// load reads the scenario a command line names: a file, or builtin:NAME.
func load(name string) (Scenario, error) {
	if builtin, ok := strings.CutPrefix(name, builtinPrefix); ok {
		data, err := Builtin(builtin)
		if err != nil {
			return Scenario{}, err
		}
		return Parse(data, name)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return Parse(data, name)
}
