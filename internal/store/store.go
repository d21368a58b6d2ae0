package store

import (
	"context"
	"embed"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Errors of opening a database.
var (
	ErrNewer    = db.ErrNewer
	ErrOlder    = db.ErrOlder
	ErrForeign  = db.ErrForeign
	ErrUnmarked = db.ErrUnmarked
	ErrCorrupt  = db.ErrCorrupt
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// tableList has each table with its key, and with the column that refers to later rows of it.
//
//go:embed tables.list
var tableList string

func schema() db.Schema {
	out := db.Schema{Files: migrationFiles}
	for line := range strings.Lines(tableList) {
		words := append(strings.Fields(line), "")
		out.Tables = append(out.Tables, db.Table{Name: words[0], Key: strings.Split(words[1], ","), SelfReference: words[2]})
	}
	return out
}

// Options say which database to open: a file by its path, or one on a PostgreSQL server by its address.
type Options struct {
	Path   string
	URL    string       // postgres://user:password@host:5432/name; then Path is empty
	Clock  ops.Clock    // nil: the database's time; see Store.Clock
	Host   ops.Clock    // this machine's clock; nil: the system's
	Uptime Uptime       // nil: the system's
	Logger *slog.Logger // nil: no log
	// MaxOutput is how many bytes of a session's output are kept: the beginning and the end. 0 means all of it.
	MaxOutput int64
	Words     Words // nil, like Rules, for whoever only reads rows and copies
	Rules     Rules
	// Version is that of this program; see db.Options.
	Version string
}

// Words are the sentences of rows for which only the transaction that writes them knows the facts.
type Words interface {
	IncidentWords
	Event(e ops.Event) ops.Rendered
	Answered(by string, a ops.ApprovalDetail) string
	ActionInterrupted(r ops.ActionRun) ops.Text
	Updated(u ops.Update) (ops.Level, ops.Text)
	UpdateAdvice(u ops.Update) string
	// Why services are held or trusted less, and what becomes of their reflexes.
	AttackedTwice(until time.Time) string
	InCharge(c ops.CycleID) string
	LessTrusted(l ops.Lowered, before ops.Trust) ops.Text
	DidNotLast(c ops.Cycle) string
	UndoneAction(r ops.ActionRun) string
	ReflexUndone(r ops.ActionRun) string
	GuardAlarm(e ops.Event) string
	ReflexEarned(e ops.Earned) ops.Text
	ByReflex(actions []string, proven bool) string
}

// IncidentWords tell of incidents that end, come back, or do not end.
type IncidentWords interface {
	UnlistedTitle(names []string) string
	Over(environment string, over []ops.Incident) ops.Text
	AlertsOver() string
	Unproven(environment string, claimed []ops.Incident) ops.Text
	Remaining(i ops.Incident) string
	StillWrong(service string, level ops.Health, alerts []ops.Alert, hold string) string
	DidNotHold(i ops.Incident, claimed ops.Cycle, r ops.Relapse) ops.Text
	Refutes(claimed ops.Cycle, r ops.Relapse) string
	AfterRelapse(r ops.Relapse) string
	Claimed(c ops.Cycle, r ops.Relapse) string
	AlsoRefutes(text string, refuted []string) string
}

// Store is an open database. Whoever needs a part of it is handed that part.
type Store struct {
	Journal *Journal
	People  *People
	Watch   *Watch
	Acts    *Acts
	Reports *Reports
	kernel  *kernel
}

// Journal is what a worker reads and writes.
type Journal struct{ *kernel }

// People is what people see and answer.
type People struct {
	*kernel
	reply *Reply // what brought the answers that are written with it; nil if people gave them on a page or with a command
}

// Watch is what starts cycles.
type Watch struct{ *kernel }

// Acts is what tool calls and actions may do.
type Acts struct{ *kernel }

// Reports is what pages and metrics show.
type Reports struct{ *kernel }

// kernel is what the parts share.
type kernel struct {
	db     *db.DB
	clock  ops.Clock
	uptime Uptime
	words  Words
	rules  Rules
	// maxOutput is that of the options.
	maxOutput int64
	latest    latestChecks
	inventory lastInventory
	jobs      atomic.Pointer[Jobs]
	pace      db.Pace // of RemoveOld
}

// Open opens the journal for writing, creates a missing file and migrates an older schema. On a server the database must exist:
// empty, or with the journal in it.
func Open(ctx context.Context, o Options) (*Store, error) { return open(ctx, o, db.Open) }

// OpenReadOnly opens an existing journal for reading, also while a daemon uses it. Without a journal the error is
// ops.ErrNotFound.
func OpenReadOnly(ctx context.Context, o Options) (*Store, error) {
	return open(ctx, o, db.OpenReadOnly)
}

func open(ctx context.Context, o Options, connect func(context.Context, db.Options) (*db.DB, error)) (*Store, error) {
	s := &kernel{clock: o.Clock, uptime: o.Uptime, words: o.Words, rules: o.Rules, maxOutput: o.MaxOutput}
	host := o.Host
	if host == nil {
		host = time.Now
	}
	if o.Clock != nil {
		host = o.Clock
	}
	if s.uptime == nil {
		s.uptime = systemUptime()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	s.db, err = connect(ctx, db.Options{
		Path: o.Path, URL: o.URL, Schema: schema(), Clock: host, Logger: o.Logger, Version: o.Version,
	})
	if err != nil {
		return nil, err
	}
	if s.clock == nil {
		s.clock = s.db.Clock
	}
	return &Store{
		Journal: &Journal{s}, People: &People{kernel: s}, Watch: &Watch{s}, Acts: &Acts{s}, Reports: &Reports{s}, kernel: s,
	}, nil
}

// Close ends all use of the database. After MarkOpen it also records the clean stop.
func (s *Store) Close() error { return s.kernel.db.Close() }

// Pool returns the connections to the PostgreSQL server, for other users of the same database; nil on SQLite. They must be done
// with it before Close.
func (s *Store) Pool() *pgxpool.Pool { return s.kernel.db.Pool() }

// Listen calls changed after other processes wrote to the database, and once after each connect, because a change may have been
// missed before. It returns when ctx ends.
func (s *Store) Listen(ctx context.Context, changed func(ops.Reach)) error {
	return s.kernel.db.Listen(ctx, changed)
}

// MarkOpen records that this process works on the journal until Close. Commands that only add a row next to a running daemon do
// not call it.
func (s *Store) MarkOpen(ctx context.Context) error { return s.kernel.db.MarkOpen(ctx) }

// UncleanStop reports whether the last process that called MarkOpen ended without Close. For a database on a server it is always
// false: there the lease of each host shows that.
func (s *Store) UncleanStop() bool { return s.kernel.db.UncleanStop() }

// Clock tells the time by which everything stored is compared: the server's, or for a file this machine's.
func (s *Store) Clock() time.Time { return s.kernel.clock() }

// Skew is how far this machine's clock is ahead of the database's. It is not known for a file.
func (s *Store) Skew() (ahead time.Duration, known bool) { return s.kernel.db.Skew() }

// Present is an error when the open database file was removed or replaced.
func (s *Store) Present() error { return s.kernel.db.Present() }

// Rescue writes what the open database holds into a new file, also when it was removed from its folder.
func (s *Store) Rescue(ctx context.Context, target string) error {
	return s.kernel.db.Rescue(ctx, target)
}

// orNow is t, or the store's own time where the caller gave none.
func (s *kernel) orNow(t time.Time) time.Time {
	if t.IsZero() {
		return s.clock()
	}
	return t
}

// Backup is a copy of a database in one file.
type Backup = db.Backup

// Copied is a table that was copied and compared.
type Copied = db.Copied

// Flaw is something in a database that is wrong.
type Flaw = db.Flaw

// BackUp writes a complete and checked copy of a database file, also while a daemon uses it. An existing target is
// ops.ErrConflict unless it may be replaced.
func BackUp(ctx context.Context, database, target string, replace bool) (Backup, error) {
	return schema().BackUp(ctx, database, target, replace)
}

// Examine reads a whole database file that is not in use, and reports damage and its schema version.
func Examine(ctx context.Context, path string) (Backup, error) { return schema().Examine(ctx, path) }

// Restore replaces a database that is not in use by a backup, and returns the path to which the former database was renamed; ""
// where there was none.
func Restore(ctx context.Context, backup, database string) (kept string, err error) {
	return schema().Restore(ctx, backup, database)
}

// Copy copies a whole journal into an empty database: everything or nothing. Neither may be in use.
func Copy(ctx context.Context, from, to *Store, progress func(table string, rows int64)) ([]Copied, error) {
	return db.Copy(ctx, from.kernel.db, to.kernel.db, progress)
}

// Damaged reports whether an error means that the database itself is damaged, and not only that one call failed.
func Damaged(err error) bool { return db.Damaged(err) }

// Unavailable reports whether an error means that the database cannot be used for the moment: it is locked, full, cannot be reached, or
// its file is gone or damaged.
func Unavailable(err error) bool { return db.Unavailable(err) }

// ErrReplaced means that the file of an open database was removed or replaced.
var ErrReplaced = db.ErrReplaced

// ErrUnwritable means that the file system of an open database does not take writes any more.
var ErrUnwritable = db.ErrUnwritable

// QuickCheck reads the whole file and reports damage as ErrCorrupt. On a server only the existence of the tables is checked.
func (s *Store) QuickCheck(ctx context.Context) error { return s.kernel.db.QuickCheck(ctx) }
