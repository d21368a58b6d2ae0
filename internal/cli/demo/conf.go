package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The files in the folder of the demo.
const (
	confFile     = "service.conf"
	goodConfFile = "service.conf.good"
	lastConfFile = "service.conf.last" // what the last redeployment replaced
	cacheFile    = "cache"
	oldCacheFile = "cache.old" // what the last rebuild replaced
	logFile      = "service.log"
	pidFile      = "service.pid"
	urlFile      = "service.url"
	socketFile   = "keeper.sock"
)

// brokenUpstream is an address without a listener.
const brokenUpstream = "127.0.0.1:1"

// conf is the configuration of the service.
type conf struct {
	upstream string
}

func confText(comment, upstream string) string {
	return fmt.Sprintf("# mediabox configuration, %s\n# The library that mediabox serves from.\nupstream = %s\n", comment, upstream)
}

// readConf reads the configuration strictly, so that a typing error is reported.
func readConf(dir string) (conf, error) {
	path := filepath.Join(dir, confFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return conf{}, fmt.Errorf("read service configuration: %w", err)
	}
	var c conf
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(key) != "upstream" {
			return conf{}, fmt.Errorf("read service configuration: %s:%d: want upstream = HOST:PORT, found %q", path, i+1, line)
		}
		c.upstream = strings.TrimSpace(value)
	}
	if c.upstream == "" {
		return conf{}, fmt.Errorf("read service configuration: %s has no upstream", path)
	}
	return c, nil
}

// replaceFile writes a file so that a reader sees the old or the new one, never half of it.
func replaceFile(path, content string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("replace %s: %w", filepath.Base(path), err)
	}
	return nil
}
