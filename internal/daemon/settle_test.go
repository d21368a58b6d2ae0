package daemon

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestOnlyUnchangedPagesOfTheProgramAreGivenBack(t *testing.T) {
	const smaps = `00400000-00500000 r-xp 00000000 08:01 12 /bin/program
Rss:                 400 kB
Anonymous:             0 kB
00500000-00600000 r--p 00100000 08:01 12 /bin/program
Anonymous:             4 kB
00600000-00700000 rw-p 00200000 08:01 12 /bin/program
Anonymous:             0 kB
00700000-00800000 r--p 00300000 08:01 12 /bin/program
Anonymous:             0 kB
00800000-00900000 r-xp 00000000 08:01 13 /lib/other
Anonymous:             0 kB
00900000-00a00000 r-xp 00000000 08:01 12 /bin/program (deleted)
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x500000}, {0x700000, 0x800000}}
	if got := unchanged(strings.NewReader(smaps), "/bin/program"); !slices.Equal(got, want) {
		t.Errorf("%x", got)
	}
}

func TestTheProgramRunsOnAfterItGaveItsPagesBack(t *testing.T) {
	program, err := os.Executable()
	must(t, err)
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	if len(unchanged(strings.NewReader(string(raw)), program)) == 0 {
		t.Error("nothing of the program can be given back")
	}
	for range 3 {
		settle()
		if !strings.Contains(strings.ToUpper(string(raw)), strings.ToUpper(program)) {
			t.Error("the program lost itself")
		}
	}
}
