package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A screen is 40 lines, also for the commands that take a flag for every setting.
func TestHelpFitsOnAScreen(t *testing.T) {
	a := &app{settings: map[string]string{}}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		var out bytes.Buffer
		c.SetOut(&out)
		must(t, c.Help())
		if lines := strings.Count(out.String(), "\n"); lines > 40 && c.HasParent() {
			t.Errorf("the help of %s has %d lines", c.CommandPath(), lines)
		}
	}
	check(a.tree())
}

func TestOnlyCommandsThatNeedItTakeEverySetting(t *testing.T) {
	a := &app{settings: map[string]string{}}
	root := a.tree()
	for _, tc := range []struct {
		path  string
		flags []string
		not   []string
	}{
		{"serve", []string{"interval", "state-dir", "dry-run"}, nil},
		{"once", []string{"interval", "dry-run"}, nil},
		{"config check", []string{"interval"}, nil},
		{"config show", []string{"interval"}, nil},
		{"doctor", []string{"claude-bin"}, nil},
		{"db check", []string{"state-dir", "database-url-file"}, []string{"interval", "tier1-model"}},
		{"sessions list", []string{"state-dir", "database-url-file"}, []string{"interval"}},
		{"healthcheck", []string{"listen"}, []string{"state-dir"}},
		{"handlers list", nil, []string{"interval", "state-dir"}},
		{"version", nil, []string{"state-dir"}},
	} {
		c, _, err := root.Find(strings.Fields(tc.path))
		must(t, err)
		for _, name := range tc.flags {
			if c.Flags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", tc.path, name)
			}
		}
		for _, name := range tc.not {
			if c.Flags().Lookup(name) != nil {
				t.Errorf("%s has --%s", tc.path, name)
			}
		}
	}
}
