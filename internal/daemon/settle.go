package daemon

import (
	"bufio"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// settle gives back the memory that only the start needed, which is several times what running needs: first the heap (the second call
// also frees what pools hold), then the pages of the program's file. The kernel maps a page again when it is used.
func settle() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return // it only saves memory, and only Linux has the file
	}
	defer func() { _ = maps.Close() }()
	for _, m := range unchanged(maps, program) {
		// An error means that the pages stay.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a part of the address space.
type mapping struct {
	from, to uintptr
}

// unchanged finds the mappings of a file that cannot be written and of which no page was ever changed, so that every page can be read
// from the file again. A linker's relocations, for example, are changes.
func unchanged(smaps io.Reader, file string) []mapping {
	var out []mapping
	var current mapping
	wanted := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) >= 5 && strings.Contains(words[0], "-"):
			current, wanted = mapping{}, false
			if len(words) != 6 || words[5] != file || !strings.HasPrefix(words[1], "r-") {
				continue
			}
			from, to, _ := strings.Cut(words[0], "-")
			begin, errFrom := strconv.ParseUint(from, 16, strconv.IntSize)
			end, errTo := strconv.ParseUint(to, 16, strconv.IntSize)
			current, wanted = mapping{uintptr(begin), uintptr(end)}, errFrom == nil && errTo == nil && begin < end
		case wanted && len(words) == 3 && words[0] == "Anonymous:" && words[1] == "0":
			out = append(out, current)
		}
	}
	return out
}
