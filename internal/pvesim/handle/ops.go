package handle

// Op is one request or SSH command, as it is numbered for tests and for fault rules.
type Op struct {
	Seq      int               `json:"seq"`
	Method   string            `json:"method"` // HTTP method, or "SSH"
	Path     string            `json:"path"`   // the API's template, or the command's words ("qm unlock")
	Params   map[string]string `json:"params,omitempty"`
	VMID     int               `json:"vmid,omitempty"`
	Status   int               `json:"status"` // HTTP status, or the command's exit status; 0 while it runs
	Node     string            `json:"node,omitempty"`
	Identity string            `json:"identity,omitempty"`
}
