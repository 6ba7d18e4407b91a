package bridge

// asynqScript names one of asynq's Lua scripts.
type asynqScript string

// The scripts the bridge does not simply pass on.
const (
	asynqEnqueue        asynqScript = "enqueue"
	asynqSchedule       asynqScript = "schedule"
	asynqDequeue        asynqScript = "dequeue"
	asynqDone           asynqScript = "done"
	asynqDoneUnique     asynqScript = "done unique"
	asynqComplete       asynqScript = "complete"
	asynqCompleteUnique asynqScript = "complete unique"
	asynqRequeue        asynqScript = "requeue"
	asynqRetry          asynqScript = "retry"
	asynqArchive        asynqScript = "archive"
	asynqForward        asynqScript = "forward"
	asynqPurge          asynqScript = "delete expired completed"
	asynqLeaseExpired   asynqScript = "list lease expired"
	asynqRunTask        asynqScript = "run task"
	asynqRunAll         asynqScript = "run all"
	asynqArchiveTask    asynqScript = "archive task"
	asynqArchiveAll     asynqScript = "archive all"
	asynqArchivePending asynqScript = "archive all pending"
	asynqDeleteTask     asynqScript = "delete task"
	asynqDeleteAll      asynqScript = "delete all"
	asynqDeletePending  asynqScript = "delete all pending"
	asynqUpdatePayload  asynqScript = "update task payload"
	asynqRemoveQueue    asynqScript = "remove queue"
	asynqRemoveForce    asynqScript = "remove queue force"
)

// asynqScripts are the scripts of asynq v0.26.0 by the SHA-1 of their text. TestAsynqScripts drives asynq and compares.
var asynqScripts = map[string]asynqScript{
	"98d28b42650870a743450ffda9791e9e19c6991b": asynqEnqueue,
	"8ce6b38a99b73194585c251eb3c2a89559f37a87": asynqSchedule,
	"a8153319360adc71cdc370107f8ab9786f204765": asynqDequeue,
	"1241eaa1c73409baaf1fea0c08d203a4911bda15": asynqDone,
	"a2631c71357a54b4c3e7450b1757e7f3f49d6c81": asynqDoneUnique,
	"117dca952700588e559c7ace20b925096d587974": asynqComplete,
	"ce6833ccce362a8c0ee53beee413341daf52e39c": asynqCompleteUnique,
	"f34cbfd11d1fc8019af55b50c447fc68eb8b29e5": asynqRequeue,
	"65fa409c88198a681c53e0892d8276eca0145694": asynqRetry,
	"9c3b1eb9947ce2ee5304ac013a0a365ec364fd2d": asynqArchive,
	"522b1a6ae66fe79ea2f24a9af58798ab71879035": asynqForward,
	"49c4326d80c1db9c476da2aa7f4438d03688f82b": asynqPurge,
	"16988a462595f6ee317be300951533b004f27f5c": asynqLeaseExpired,
	"2fb646810e3433bbe85fba1a6b407eb3eced7b63": asynqRunTask,
	"1d0a1f59e02d7de4c1ffdc680ba4f5984b1a590c": asynqRunAll,
	"c3183bd2c882c715c12e3e44b9c09df7d91de1ad": asynqArchiveTask,
	"7f02b3d3e0a1e6e4ad5aaac4a558573b7b5aa95e": asynqArchiveAll,
	"c78daecbbe3c90b1d8d3470c5c68132818fbdf21": asynqArchivePending,
	"ffa79e9140e5aafb8e967e8d3e5f4eaefb648091": asynqDeleteTask,
	"87a4d4356874805c7c2132b517c0587b9021aba2": asynqDeleteAll,
	"8c58fe6e892f2c0a29249a47799023654d4551c9": asynqDeletePending,
	"a0bdc8d8212813666a7df7c612f4b6ee09df0b2d": asynqUpdatePayload,
	"d3473f4c26d0b12bcf434f271d79f9f8431b549c": asynqRemoveQueue,
	"a095473ab1d8e275758ea446baa43bb582eac0a8": asynqRemoveForce,

	// These need no record: they read, or move tasks of plain asynq producers that no worker has taken yet.
	"297b3f9abfd963a3316434ef9d88fc5bf8a7ddc3": "enqueue unique",
	"e9b8aa859a976a1fce09eaf723b4fccd02ba799e": "schedule unique",
	"074af2c5a4623800684c1b0e4e328c2500f06815": "add to group",
	"deeb77b98fd021a8a0279d8e7dd11a8a4546611a": "add to group unique",
	"a3812898e6caa8ef58d4cda34cd41a1023157e43": "aggregation check",
	"74ba718a5ed06d87a29e289ce500f34eac8759fc": "read aggregation set",
	"f78335554f1a49a26ac08c02e9f50237e38fae18": "delete aggregation set",
	"7c08714194a1ed81153180b36590c51f1ccd7d42": "reclaim stale aggregation sets",
	"95d6ff8ea96c4e9441a0d202a7babf13c5421285": "run all aggregating",
	"0f24d56b49f2c17216165b5df7914bc75b10c33e": "archive all aggregating",
	"e90e63534c2b576147c8426713da4c8270138a89": "delete all aggregating",
	"3c8548ad44d0dfcfde50f07ea9271d77f656042c": "write server state",
	"79cf8dbc80deca37314fdfdeb9fe33a12c9baad7": "clear server state",
	"313393fb34cf7668d3ae712d88666ce651da3861": "write scheduler entries",
	"5feb3e91ca9086f0335575fa366ac2b94ec7b886": "record scheduler enqueue event",
	"8495598cb6d9a2efdaf2ae98021a8f4ef1803b3d": "current stats",
	"0c80fc1868e3aae205155ae2017ce995a3a7cec0": "memory usage",
	"21ba63720a304c8939d592261cb5f6aeacdecad1": "historical stats",
	"1463a65d3fd6698099862e1314658984affe6ed7": "get task info",
	"767783fddcb7e4702c368fd352ae6a3d9393d273": "group stats",
	"e33b162cbcaa58a573d0f5a5067b4c3e2246e079": "list messages",
	"8ce4326dbba042f10ec098fa779168e0a9e8c6c8": "list zset entries",
	"ec6970a9c80b182f05628a1377dcfee7df765fb4": "list server, worker and scheduler keys",
}
