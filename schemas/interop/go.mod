// Foreign programs that judge what doorbell says; nothing of it is Go. This file keeps the go command out of node_modules.
module doorbell/schemas/interop

go 1.26.0
