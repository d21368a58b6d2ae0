package recovery

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"claudeops/internal/ops"
)

// Seed makes the seed of the jitter from what a restart finds again.
func Seed(cycle int64, attempt int) uint64 {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], uint64(cycle))
	binary.LittleEndian.PutUint64(raw[8:], uint64(attempt))
	h := fnv.New64a()
	_, _ = h.Write(raw[:]) // never fails
	return h.Sum64()
}

// spread is how far a wait may be off, in percent, so that many cycles do not come back at the same moment.
const spread = 10

// jittered moves a wait by up to ±10 %, always alike for one seed and one retry.
func (w *walk) jittered(wait time.Duration) time.Duration {
	const steps = 2000
	x := Seed(int64(w.offer.Seed), w.count(ops.RecoveryRetry)) % (steps + 1)
	permille := int64(x) - steps/2
	return wait + time.Duration(int64(wait)*permille*spread/(100*steps/2))
}
