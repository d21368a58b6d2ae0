package confine

// Wall says what a program may still do behind it. Folders and files that do not exist are left out.
type Wall struct {
	// Read lists folders and files that can be read and executed, Write those that can be changed as well.
	Read  []string `json:"read"`
	Write []string `json:"write"`
	// NoUnix refuses new Unix sockets: the only way to keep path-named sockets out of reach where neither file permissions nor
	// mounts do.
	NoUnix bool `json:"no_unix,omitempty"`
	// KeepMetadata refuses to change owners, modes, times and attributes of files. Landlock does not cover them, so a process that
	// runs as the owner of the supervisor's files must not have them, unless a read-only mount protects the files.
	KeepMetadata bool `json:"keep_metadata,omitempty"`
	// Trial is made behind the wall before the program starts; nil: no trial.
	Trial *Trial `json:"trial,omitempty"`
	// Best accepts a kernel without Landlock or without a part of it.
	Best bool `json:"best,omitempty"`
}

// Plan is what this program does before it becomes an agent.
type Plan struct {
	Walls []*Wall `json:"walls"` // the outermost first; the agent stays behind them
	// Trial are walls that a thread of its own tries first, the last one with a Trial. The result is the first line of the output.
	Trial []*Wall `json:"trial,omitempty"`
}

// A trial prints Report and what it found: Hold, or what is broken.
const (
	Report = "claudeops walls: "
	Hold   = "hold"
)
