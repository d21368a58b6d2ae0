package ops

// Outcome is what a session says at its end, in the structured form.
type Outcome struct {
	SchemaVersion int           `json:"schema_version"`
	Kind          OutcomeKind   `json:"outcome"`
	Summary       string        `json:"summary"`
	Confidence    *float64      `json:"confidence,omitempty"` // how sure the session is of its decision, 0 to 1
	CheckResults  []CheckResult `json:"check_results"`
	Handoff       *Handoff      `json:"handoff,omitempty"` // present if and only if the kind is escalate
	Actions       []Action      `json:"actions"`
	Events        []Remark      `json:"events"`
	Memories      []Lesson      `json:"memories"`
}

// Action is something an agent says it did.
type Action struct {
	Service string `json:"service"`
	Action  string `json:"action"`
	Success bool   `json:"success"`
	Detail  string `json:"detail"`
}

// Remark is something an agent wants the operator to see.
type Remark struct {
	Level   Level  `json:"level"`
	Service string `json:"service"`
	Message string `json:"message"`
}

// Lesson is something an agent wants remembered.
type Lesson struct {
	Category    string `json:"category"`
	Service     string `json:"service"`
	Observation string `json:"observation"`
}
