package ops

import (
	"strings"
	"time"
)

// ProbeHeartbeat is the type of probes that wait for a job to call, instead of asking a service.
const ProbeHeartbeat = "heartbeat"

// Heartbeat is what is known of the calls that a probe of this type waits for.
type Heartbeat struct {
	Environment string
	Service     string
	Probe       string
	Since       time.Time  // when it was first configured, or its address was made
	Addressed   bool       // it has an address that a job can call
	StartedAt   *time.Time // of a run that has not ended
	EndedAt     *time.Time // of the last run
	Failed      bool       // how that ended
	Exit        int        // its exit code, if it failed with one
	Output      string     // what it said, without secrets
	Seq         int64      // grows with each change in an environment
}

// Ping is one call of a job.
type Ping struct {
	Start  bool // it begins; otherwise it has ended
	Failed bool
	Exit   int
	Output string
	At     time.Time
}

// LateMark begins the error of a heartbeat that is late and not yet missed.
const LateMark = "late: "

// Late reports whether a check found nothing but a heartbeat that is late. People see it, but nothing is started for it: the job still
// has its grace.
func (c Check) Late() bool {
	return c.Status == Degraded && c.Type == CheckService && c.Purpose != ProbeAlert && strings.HasPrefix(c.Error, LateMark)
}
