package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
)

// withSettings gives a command a flag for every setting.
func (a *app) withSettings(c *cobra.Command) *cobra.Command { return a.withFlags(c, config.Flags) }

// withFlags gives a command flags for the settings that mean something to it. They are added when the command is chosen.
func (a *app) withFlags(c *cobra.Command, flags func() []config.Flag) *cobra.Command {
	a.flags[c] = flags
	return c
}

// addFlags gives the command that the arguments choose its flags. The help may be about any command.
func (a *app) addFlags(root *cobra.Command, args []string) {
	chosen, _, err := root.Find(args)
	if err != nil || chosen == root { // help, completion, or a wrong word
		a.addAllFlags(root)
		return
	}
	a.addFlagsOf(chosen)
}

func (a *app) addAllFlags(c *cobra.Command) {
	a.addFlagsOf(c)
	for _, sub := range c.Commands() {
		a.addAllFlags(sub)
	}
}

func (a *app) addFlagsOf(c *cobra.Command) {
	flags := a.flags[c]
	if flags == nil {
		return
	}
	for _, s := range flags() {
		v := &settingValue{app: a, key: s.Key, flag: s.Bool}
		f := c.Flags().VarPF(v, s.Name, "", flagDoc(s))
		if s.Bool {
			f.NoOptDefVal = "true"
		}
	}
}

// withState lets every command below c that has no flags for settings say where the database is.
func (a *app) withState(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.withState(sub)
	}
	if !c.HasSubCommands() && a.flags[c] == nil {
		a.withFlags(c, config.StateFlags)
	}
}

// flagDoc is one line of help: the first sentence, and where else the value can come from.
func flagDoc(s config.Flag) string {
	// A word in backquotes would be taken for the name of the value.
	text, _, _ := strings.Cut(strings.ReplaceAll(s.Doc, "`", ""), ". ")
	text = strings.TrimSuffix(text, ".")
	var from []string
	if s.Env != "" {
		from = append(from, "env "+s.Env)
	}
	if s.Default != "" {
		from = append(from, "default "+s.Default)
	}
	if len(from) == 0 {
		return text
	}
	return fmt.Sprintf("%s (%s)", text, strings.Join(from, ", "))
}

// settingValue keeps what a flag was set to; the configuration checks it with everything else.
type settingValue struct {
	app  *app
	key  string
	flag bool
}

func (v *settingValue) String() string { return "" }

func (v *settingValue) Set(s string) error {
	v.app.settings[v.key] = s
	return nil
}

func (v *settingValue) Type() string {
	if v.flag {
		return "bool"
	}
	return "value"
}
