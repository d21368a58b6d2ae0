package scripted

// bytesPerToken is a rough measure; the figures only have to look right and grow with the conversation.
const bytesPerToken = 4

// usage are the token counts as the protocol names them.
type usage struct {
	Input      int64 `json:"input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// meter counts what a model would have been sent and would have answered.
type meter struct {
	cached  int64 // what earlier calls of this run already carried
	pending int64 // what the next call will carry for the first time
	total   usage
	calls   int64
}

func tokens(size int) int64 { return int64(size/bytesPerToken) + 1 }

// heard adds text that the next call will carry.
func (m *meter) heard(size int) { m.pending += tokens(size) }

// call counts one call of the model and returns what it is said to have used at its start.
func (m *meter) call() usage {
	u := usage{Input: m.pending, CacheRead: m.cached, Output: 1}
	m.total.Input += m.pending
	m.total.CacheRead += m.cached
	m.cached += m.pending
	m.pending = 0
	m.calls++
	return u
}

// answered adds text of the agent, which later calls carry along.
func (m *meter) answered(size int) {
	n := tokens(size)
	m.total.Output += n
	m.cached += n
}
