// Judges histories by porcupine: one JSON history per line in, one verdict per line out.
//
// The format is that of tests/faults/porcupine/corpus.py, the model that of tests/faults/linearizable.py.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	timeout  = time.Minute
	lineSize = 1 << 24
	ok       = "ok"
)

type znode struct {
	data    string
	version int
}

type tree = map[string]znode

func parentOf(path string) (string, string) {
	at := strings.LastIndex(path, "/")
	return path[:max(at, 0)], path[at+1:]
}

// One call on a tree of its own, which it may change. An error is a string that is not "ok".
func executeOne(znodes tree, call []any) any {
	name, path := call[0].(string), call[1].(string)
	node, exists := znodes[path]
	if name == "create" {
		if parent, _ := parentOf(path); parent != "" {
			if _, exists := znodes[parent]; !exists {
				return "NoNodeError"
			}
		}
		if exists {
			return "NodeExistsError"
		}
		znodes[path] = znode{call[2].(string), 0}
		return ok
	}
	if path != "" && !exists {
		return "NoNodeError"
	}
	children := []string{}
	for each := range znodes {
		if parent, child := parentOf(each); parent == path && each != path {
			children = append(children, child)
		}
	}
	switch name {
	case "set", "delete", "check":
		if wanted := int(call[len(call)-1].(float64)); wanted != -1 && wanted != node.version {
			return "BadVersionError"
		}
	}
	switch name {
	case "children":
		slices.Sort(children)
		return children
	case "set":
		znodes[path] = znode{call[2].(string), node.version + 1}
		return node.version + 1
	case "delete":
		if len(children) > 0 {
			return "NotEmptyError"
		}
		delete(znodes, path)
	case "get":
		return []any{node.data, node.version}
	case "exists":
		return node.version
	}
	return ok
}

func execute(before tree, call []any) (any, tree) {
	after := maps.Clone(before)
	if call[0] != "transaction" {
		return executeOne(after, call), after
	}
	results := []any{}
	for index, each := range call[1].([]any) {
		result := executeOne(after, each.([]any))
		if text, isText := result.(string); isText && text != ok {
			return []any{"failed", index, text}, before
		}
		results = append(results, result)
	}
	return results, after
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

var model = porcupine.Model{
	Init: func() any { return tree{} },
	// The input is the call, the output the result as JSON; null if it is not known.
	Step: func(state, input, output any) (bool, any) {
		result, after := execute(state.(tree), input.([]any))
		return output == "null" || text(result) == output, after
	},
	Equal: func(one, other any) bool { return maps.Equal(one.(tree), other.(tree)) },
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineSize)
	for lines.Scan() {
		var history [][4]any
		if err := json.Unmarshal(lines.Bytes(), &history); err != nil {
			panic(err)
		}
		operations := []porcupine.Operation{}
		for _, each := range history {
			returned := int64(math.MaxInt64)
			if each[1] != nil {
				returned = int64(each[1].(float64))
			}
			operations = append(operations, porcupine.Operation{
				Call: int64(each[0].(float64)), Return: returned, Input: each[2].([]any), Output: text(each[3]),
			})
		}
		fmt.Println(porcupine.CheckOperationsTimeout(model, operations, timeout))
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}
