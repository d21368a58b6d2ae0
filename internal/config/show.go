package config

import (
	"strings"
	"sync"
)

// hidden replaces a secret that is set.
const hidden = "[redacted]"

// Setting is one effective value, for listings.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // secrets are redacted
	Origin string `json:"origin"` // default, file:line, environment NAME, or flag --name
	Env    string `json:"env,omitempty"`
	Doc    string `json:"doc"`
}

// Show lists every setting with its value and where that came from.
func (c *Config) Show() []Setting {
	out := make([]Setting, len(c.table))
	for i, f := range c.table {
		text := f.text()
		switch {
		case f.secret && text != "":
			text = hidden
		case strings.Contains(text, "://"):
			text = withoutPassword(text)
		}
		out[i] = Setting{Key: f.key, Value: text, Origin: c.origins[f.key].String(), Env: f.env, Doc: f.doc}
	}
	return out
}

// Flag is a setting that can be given on the command line.
type Flag struct {
	Key     string // for Input.Flags
	Name    string // without dashes
	Env     string
	Default string
	Doc     string
	Bool    bool // may be given without a value
}

// options are all settings and the values they are bound to. Every command asks for some of them, so they are made once.
var options = sync.OnceValue(func() *Config {
	c := newConfig()
	c.table = c.settings()
	return c
})

// Flags lists the settings that have a flag: all except lists of objects. Of a secret only its file can be given.
func Flags() []Flag { return allFlags() }

var allFlags = sync.OnceValue(func() []Flag { return flags(options().table) })

// StateFlags are the flags that say where the database is, for commands that only use it.
func StateFlags() []Flag {
	c := options()
	return c.flagsOf(&c.StateDir, &c.DatabaseURL)
}

// ListenFlags are the flags that say where the daemon answers.
func ListenFlags() []Flag {
	c := options()
	return c.flagsOf(&c.Listen)
}

func (c *Config) flagsOf(fields ...any) []Flag {
	var chosen table
	for _, at := range fields {
		chosen = append(chosen, c.table.bound(at))
	}
	return flags(chosen)
}

func flags(settings table) []Flag {
	var out []Flag
	for _, f := range settings {
		switch {
		case f.structured():
		case f.secret:
			out = append(out, Flag{Key: f.fileKey(), Name: f.flag() + "-" + fileSuffix, Env: f.fileEnv(), Doc: "File that holds: " + f.doc})
		default:
			out = append(out, Flag{Key: f.key, Name: f.flag(), Env: f.env, Default: f.def, Doc: f.doc, Bool: f.isBool()})
		}
	}
	return out
}
