// A receiver of events with the CloudEvents SDK. It prints its port, then a line for each event, or what the SDK says against it.
const { HTTP } = require("cloudevents");
const server = require("http").createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    let said;
    try {
      const event = HTTP.toEvent({ headers: request.headers, body: Buffer.concat(parts).toString() });
      event.validate();
      said = { id: event.id, type: event.type, subject: event.subject, environment: event.environment, title: event.data.title };
    } catch (error) {
      said = { error: String(error) };
    }
    response.writeHead(204).end();
    console.log(JSON.stringify(said));
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
