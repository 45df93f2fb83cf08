package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Exported is an export of third parties' objects (pvesim.Sim.ThirdParties), by section and object.
func Exported(doc []byte) map[string]map[string]string {
	var sections map[string]json.RawMessage
	out := map[string]map[string]string{}
	_ = json.Unmarshal(doc, &sections) // the simulator's own
	for section, raw := range sections {
		out[section] = map[string]string{}
		var list []map[string]any
		if json.Unmarshal(raw, &list) != nil {
			out[section][""] = string(raw)
			continue
		}
		for n, object := range list {
			name := strconv.Itoa(n)
			for _, key := range []string{"vmid", "volid", "id", "sid", "subject"} {
				if v, ok := object[key]; ok {
					name = fmt.Sprint(v, " ", object["on"], object["path"])
					break
				}
			}
			if object["shared"] != nil { // ours, and attached to one of theirs: it may grow
				delete(object, "size")
			}
			text, _ := json.Marshal(object)
			out[section][name] += string(text)
		}
	}
	return out
}
