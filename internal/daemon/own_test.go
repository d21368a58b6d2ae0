package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheUnitAndItsEnvironmentFilesAreOurs(t *testing.T) {
	dir := t.TempDir()
	unit, drop := filepath.Join(dir, "ops.service"), filepath.Join(dir, "ops.service.d")
	must(t, os.Mkdir(drop, 0o700))
	for name, text := range map[string]string{
		unit: "[Service]\nEnvironmentFile=/etc/ops/secrets\nExecStart=/usr/bin/claudeops serve\n", filepath.Join(drop, "more.conf"): "[Service]\nEnvironmentFile=-/etc/ops/more\n",
	} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	units := unitFilesOf("0::/system.slice/ops.service/claudeops-x\n", []string{dir, filepath.Join(dir, "none")})
	if !slices.Equal(units, []string{unit, drop}) {
		t.Errorf("units are %q", units)
	}
	if files := environmentFiles(units); !slices.Equal(files, []string{"/etc/ops/secrets", "/etc/ops/more"}) {
		t.Errorf("environment files are %q", files)
	}
	if units := unitFilesOf("0::/user.slice/session-1.scope\n", []string{dir}); units != nil {
		t.Errorf("a shell has the units %q", units)
	}
}
