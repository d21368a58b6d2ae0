package daemon

import (
	"claudeops/internal/config"
	"claudeops/internal/web"
)

// settings is the configuration as a page may show it: secrets are masked where they are read.
func settings(c *config.Config) []web.Setting {
	var out []web.Setting
	for _, s := range c.Show() {
		out = append(out, web.Setting{Key: s.Key, Value: s.Value, Origin: s.Origin, Env: s.Env, Doc: s.Doc})
	}
	return out
}
