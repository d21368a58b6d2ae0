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
	check(a.root())
}

// root makes all commands with all their flags.
func (a *app) root() *cobra.Command {
	root := a.tree()
	a.addAllFlags(root)
	return root
}

func TestOnlyCommandsThatNeedItTakeEverySetting(t *testing.T) {
	a := &app{settings: map[string]string{}}
	root := a.root()
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

func TestOnlyTheChosenCommandGetsItsFlags(t *testing.T) {
	for _, tc := range []struct {
		args string
		has  map[string]bool
	}{
		{"serve -q", map[string]bool{"serve": true, "once": false, "db check": false}},
		{"sessions list --output json", map[string]bool{"sessions list": true, "serve": false}},
		{"version", map[string]bool{"serve": false}},
		{"help serve", map[string]bool{"serve": true, "once": true, "db check": true}},
		{cobra.ShellCompRequestCmd + " serve --", map[string]bool{"serve": true, "sessions list": true}},
		{"serv", map[string]bool{"serve": true}}, // the error may propose flags
	} {
		a := &app{settings: map[string]string{}}
		root := a.tree()
		a.addFlags(root, strings.Fields(tc.args))
		for path, want := range tc.has {
			c, _, err := root.Find(strings.Fields(path))
			must(t, err)
			if got := c.Flags().Lookup("state-dir") != nil; got != want {
				t.Errorf("%s: %s has --state-dir: %v", tc.args, path, got)
			}
		}
	}
}
