//go:build !linux

package wall

// Other systems have neither; there are no walls to prepare files for.
const (
	openPath  = 0
	emptyPath = 0
)

func missingCapabilities() []string { return []string{"Linux"} }
