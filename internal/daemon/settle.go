package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/store"
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

// refuse serves one page that says that the database is damaged, until ctx ends. Any other reason not to start ends the program
// at once.
func (o Options) refuse(ctx context.Context, ln net.Listener, reason error) error {
	if !store.Damaged(reason) {
		return errors.Join(reason, ln.Close())
	}
	o.Logger.ErrorContext(ctx, "the database is damaged; nothing starts, and every page says so", "error", reason)
	server := &http.Server{Handler: damagedPage(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	o.Service.ready("the database is damaged; nothing starts")
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { o.Service.watch(ctx, &loops{}) })
	defer watching.Wait()
	defer stop()
	select {
	case err := <-ended:
		return errors.Join(reason, err)
	case <-ctx.Done():
	}
	err := server.Close()
	<-ended
	return errors.Join(reason, err)
}

// damagedPage answers every request with the same text and status 503. Without a database nobody can be recognised, so the page does
// not name files; the log does.
func damagedPage() http.Handler {
	const words = "The database of Claude Ops is damaged. No service is watched or repaired. Stop claudeops, restore a backup " +
		"(claudeops db restore), and start it again. The log of the supervisor says what is damaged."
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("Retry-After", "60")
		if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasSuffix(r.URL.Path, "z") {
			http.Error(w, words, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Damaged · Claude Ops</title></head>"+
			"<body><main><h1>The database is damaged</h1><p>%s</p></main></body></html>\n", words)
	})
}

// skewInterval is how often this host's clock is compared with the database's.
const skewInterval = 5 * time.Second

// watchSkew records when this host's clock begins and ceases to differ from the database's, until ctx ends. Everything stored is
// compared by the database's time, so nothing stops.
func (h *Host) watchSkew(ctx context.Context) {
	wrong := false
	supervisor.Every(ctx, skewInterval, nil, func() {
		if ahead, known := h.store.Skew(); known && (ahead.Abs() > ops.MaxClockSkew) != wrong {
			if h.tellSkew(ctx, ahead) {
				wrong = !wrong
			}
		}
	})
}

func (h *Host) tellSkew(ctx context.Context, ahead time.Duration) bool {
	event := ops.Event{
		At: h.Clock(), Level: ops.LevelInfo, Verb: ops.VerbHostClock, Subject: ops.Subject{Kind: ops.SubjectHost, ID: h.Config.Host.Name},
		Message: ops.Render(fmt.Sprintf("the clock of host %s agrees with the database's again", h.Config.Host.Name)),
	}
	if ahead.Abs() > ops.MaxClockSkew {
		event.Level = ops.LevelWarning
		event.Message = ops.Render(fmt.Sprintf(
			"the clock of host %s is %s the database's; the database's time is used, but synchronize the clocks",
			h.Config.Host.Name, ops.ClockDifference(ahead)))
	}
	if _, err := h.store.AddEvent(ctx, event); err != nil {
		return false // it is tried again
	}
	h.Logger.WarnContext(ctx, "compared this host's clock with the database's", "ahead", ahead, "limit", ops.MaxClockSkew)
	h.hub.Nudge()
	return true
}
