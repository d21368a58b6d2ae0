package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"claudeops/internal/config"
)

func TestAStartWarnsOfOldPricesOnce(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir})
	must(t, err)
	for _, tc := range []struct {
		now  time.Time
		want int
	}{{time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC), 0}, {time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC), 1}} {
		var log bytes.Buffer
		h := &Host{Options: Options{Config: c, Logger: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return tc.now }}}
		h.warnOfOldPrices(t.Context())
		if got := strings.Count(log.String(), "built-in prices are old"); got != tc.want {
			t.Errorf("at %s it warns %d times, want %d:\n%s", tc.now, got, tc.want, log.String())
		}
	}
}
