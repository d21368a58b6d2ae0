package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"claudeops/internal/config"
)

// TestAServiceTakesLittleToRead holds what reading one more service allocates: a table of fields for each took 58 kB.
func TestAServiceTakesLittleToRead(t *testing.T) {
	read := func(services int) (bytes, objects uint64) {
		var y strings.Builder
		y.WriteString("services:\n")
		for i := range services {
			fmt.Fprintf(&y, "  - name: service-%d\n    probes: [{type: tcp, address: '127.0.0.1:80', interval: 1m}]\n", i)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "claudeops.yaml"), []byte(y.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := config.Load(config.Input{Dir: dir, Environ: []string{"HOME=" + dir}}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
	}
	read(10)
	const more = 1000
	fewBytes, fewObjects := read(100)
	bytes, objects := read(100 + more)
	bytes, objects = (bytes-fewBytes)/more, (objects-fewObjects)/more
	if bytes > 12_000 || objects > 150 {
		t.Errorf("one more service allocates %d bytes in %d objects", bytes, objects)
	}
}
